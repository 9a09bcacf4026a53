"""Noise and disturbances in scenario files, and the types of fields that all their parts share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Half = Annotated[float, Field(ge=0, le=0.5)]
NotNegative = Annotated[float, Field(ge=0)]
Whole = Annotated[int, Field(ge=1)]


class StrictModel(BaseModel):
    """A table in which unknown keys, NaN and values out of bounds are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Noise(StrictModel):
    """Standard deviations of measured figures from the true ones. `wander` lasts about
    `wander_minutes`, `traffic` one sample.
    """

    traffic: Annotated[float, Field(ge=0, le=0.3)] = 0
    wander: Annotated[float, Field(ge=0, le=0.3)] = 0
    wander_minutes: Positive = 60
    cpu_points: NotNegative = 0
    cpu_wander_points: NotNegative = 0
    #: Lasting difference between brokers of one kind in the cost of traffic.
    cpu_bias: Annotated[float, Field(ge=0, le=0.3)] = 0
    spikes_a_day: NotNegative = 0
    spike_points: NotNegative = 0


class Disturbances(StrictModel):
    """What disturbs a cluster in addition to noise: see docs/SIMULATION.md. Parts of all reports
    are `lost` or `late`.
    """

    lost: Half = 0
    late: Half = 0
    late_rounds: Whole = 2
    clock_s: NotNegative = 0
    bundle_noise: Fraction = 0
    bundle_cost: Fraction = 0
    rival_an_hour: Annotated[float, Field(ge=0, le=60)] = 0

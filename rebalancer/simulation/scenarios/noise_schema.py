"""Noise and disturbances in scenario files, and the types of fields that all their parts share."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
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
    """What disturbs a cluster in addition to noise; the same traffic and noise without it.

    `lost`, `late`: parts of all reports that do not arrive, or arrive `late_rounds` rounds later.
    `clock_s`: error of one broker's clock, ahead or behind. `bundle_noise`: largest deviation of a
    bundle's figures in each report, of which the broker's totals are free. `bundle_cost`: largest
    lasting deviation of a bundle's cost of CPU from that of its traffic. `rival_an_hour`: bundles
    that something else moves, at random.
    """

    lost: Fraction = 0
    late: Fraction = 0
    late_rounds: Whole = 2
    clock_s: NotNegative = 0
    bundle_noise: Fraction = 0
    bundle_cost: Fraction = 0
    rival_an_hour: Annotated[float, Field(ge=0, le=60)] = 0

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if self.lost + self.late > 1:
            raise ValueError("lost and late are parts of the same reports: at most 1 together")
        return self

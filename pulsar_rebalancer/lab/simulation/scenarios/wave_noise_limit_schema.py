"""Parts of scenario files: noise, disturbances, dispatch limits, waves, and the types of fields
that all parts share.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Half = Annotated[float, Field(ge=0, le=0.5)]
NotNegative = Annotated[float, Field(ge=0)]
Whole = Annotated[int, Field(ge=1)]
Minute = Annotated[float, Field(ge=0)]


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


class Rate(StrictModel):
    """A dispatch limit: messages, MiB, or both, every `period_s`. `relative`: in addition to the
    topic's publish rate.
    """

    messages: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    mib: Annotated[float, Field(ge=1e-6, le=1e9)] | None = None
    period_s: Annotated[int, Field(ge=1, le=86_400)] = 1
    relative: bool = False

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.messages is None and self.mib is None:
            raise ValueError(
                "a dispatch limit needs messages = ..., mib = ... or both; leave it out for "
                "no limit"
            )
        return self


class BrokerDispatch(StrictModel):
    """Limits of broker.conf: of all that a broker sends, and the default of each topic and each
    subscription.
    """

    broker: Rate | None = None
    topic: Rate | None = None
    subscription: Rate | None = None

    @model_validator(mode="after")
    def _per_second(self) -> Self:
        for name in ("broker", "topic", "subscription"):
            rate: Rate | None = getattr(self, name)
            if rate is not None and (rate.period_s != 1 or rate.relative):
                raise ValueError(
                    f"{name}: limits of a broker are per second and never relative; only "
                    "those of traffic.dispatch may be"
                )
        return self


class TopicDispatch(StrictModel):
    """Limits of topic policies: of each partition, and of each of its subscriptions. They override
    the broker's.
    """

    topic: Rate | None = None
    subscription: Rate | None = None


class Steps(StrictModel):
    """Factors, each with the minute from which it applies; 1 before the first."""

    kind: Literal["steps"]
    at: Annotated[tuple[tuple[Minute, NotNegative], ...], Field(min_length=1)]


class OnOff(StrictModel):
    """`on_s` at full rate, `off_s` at none; the phase is drawn unless given."""

    kind: Literal["on-off"]
    on_s: Positive
    off_s: Positive
    phase_s: NotNegative | None = None
    begins: Minute = 0


class Daily(StrictModel):
    """A wave of one day: 1 ± amplitude, highest at the peak hour; each seed shifts it by up to ±
    `shift_h` hours.
    """

    kind: Literal["daily"]
    amplitude: Fraction
    peak_hour: Annotated[float, Field(ge=0, lt=24)] = 12
    shift_h: NotNegative = 0


class Trace(StrictModel):
    """Recorded factors in sequence, repeated from the start after the last.

    With `file`, a path relative to the scenario, they are read from there: one figure per line in
    any unit, scaled to a mean of 1. If the file has several columns: the one that its first line
    (`# seconds,NAME,…`) calls `column`, by default the last. `rebalancer trace` writes such files.
    """

    kind: Literal["trace"]
    interval_s: Positive = 60
    factors: Annotated[tuple[NotNegative, ...], Field(min_length=1)]
    file: str | None = None
    column: str | None = None


Wave = Annotated[Steps | OnOff | Daily | Trace, Field(discriminator="kind")]

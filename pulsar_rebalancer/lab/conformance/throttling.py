"""The `throttling` suite: a token bucket or a dispatch limiter, driven operation by operation
through virtual time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from pulsar_rebalancer.lab.conformance.case_data import settings_of
from pulsar_rebalancer.lab.conformance.vectors import Case, Played
from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    LIMITERS,
    BrokerRates,
    BucketLimiter,
    ClassicLimiter,
    DispatchRate,
    PublishRate,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import (
    Bucket,
    BucketRate,
    charge,
    fill,
    throttling_ns,
)
from strategies.errors import SettingsError

_REFUSED = "java.lang.IllegalArgumentException"


class _Bucket(msgspec.Struct, frozen=True, rename="camel"):
    rate: int
    rate_period_nanos: int
    resolution_nanos: int
    start_nanos: int
    ops: list[list[Any]]
    capacity: int | None = None
    initial_tokens: int | None = None
    dynamic: bool = False


class _Rate(msgspec.Struct, frozen=True):
    msg: int = -1
    byte: int = -1
    period: int = 1
    relative: bool = False

    def rate(self) -> DispatchRate:
        return DispatchRate(self.msg, self.byte, self.period, self.relative)


class _Limiter(msgspec.Struct, frozen=True, rename="camel"):
    start_nanos: int
    ops: list[list[Any]]
    rate: _Rate | None = None
    publish: dict[str, float] = {}


class _Expected(msgspec.Struct, frozen=True):
    results: list[Any]
    error: str | None = None


class _Operations(msgspec.Struct, frozen=True):
    expect: _Expected


@dataclass
class _BucketPlayer:
    """A bucket between two operations."""

    rate: BucketRate
    bucket: Bucket
    now_ns: int

    def play(self, name: str, arguments: Sequence[Any]) -> Any:
        match name, arguments:
            case "at", [time]:
                self.now_ns = time
            case "rate", [tokens]:
                self.rate = replace(self.rate, tokens=tokens)
            case "consume", [tokens]:
                self.bucket = charge(self.bucket, tokens)
            case "tokens", []:
                return self._look().balance
            case "contains", []:
                return self._look().balance > 0
            case "consumeAndCheck", [tokens]:
                self.bucket = fill(self.bucket, self.rate, self.now_ns, tokens)
                return self.bucket.balance > 0
            case "throttle", []:
                return throttling_ns(self._look(), self.rate)
            case "throttleFor", [wanted]:
                return throttling_ns(self._look(), self.rate, wanted)
            case _:
                raise SettingsError(
                    [f"a token bucket has no operation {name!r} with {len(arguments)} arguments"]
                )
        return None

    def _look(self) -> Bucket:
        self.bucket = fill(self.bucket, self.rate, self.now_ns)
        return self.bucket


@dataclass
class _LimiterPlayer:
    """A limiter between two operations."""

    limiter: BucketLimiter | ClassicLimiter
    now_ns: int
    published: PublishRate = field(default_factory=PublishRate)

    def play(self, name: str, arguments: Sequence[Any]) -> Any:
        match name, arguments:
            case "at", [time]:
                self.now_ns = time
                if isinstance(
                    self.limiter, ClassicLimiter
                ):  # its timer runs independently of reads
                    self._look()
            case "consume", [messages, bytes_]:
                self.limiter = self.limiter.charged(messages, bytes_, self.now_ns)
            case "update", [rate]:
                self.limiter = self.limiter.updated(
                    msgspec.convert(rate, _Rate).rate(), self.now_ns, self.published
                )
            case "publish", [messages, bytes_]:
                self.published = PublishRate(messages, bytes_)
            case "available", []:
                return list(self._look().available)
            case "rates", []:
                rates = self.limiter.rates(self.published)
                return [*rates, max(rates) > 0]
            case _:
                raise SettingsError(
                    [f"a limiter has no operation {name!r} with {len(arguments)} arguments"]
                )
        return None

    def _look(self) -> BucketLimiter | ClassicLimiter:
        self.limiter = self.limiter.seen(self.now_ns, self.published)
        return self.limiter


def bucket(case: Case) -> Played:
    """Plays the operations of a case on a token bucket; every operation counts as a round. Raises
    SettingsError for a case of another form.
    """
    start = case.read(_Bucket)
    burst = None if start.dynamic else start.capacity
    rate = BucketRate(start.rate, start.rate_period_nanos, start.resolution_nanos, burst)
    initial = start.rate if start.initial_tokens is None else start.initial_tokens
    player = _BucketPlayer(rate, Bucket(initial, 0, start.start_nanos, 0), start.start_nanos)
    yield from _compared(case, player, start.ops)


def limiter(kind: str, case: Case) -> Played:
    """Plays the operations of a case on a limiter of this kind; every operation counts as a round.
    Raises SettingsError for a case of another form.
    """
    start, expected = case.read(_Limiter), case.read(_Operations).expect
    rate = (
        settings_of(BrokerRates, case.envelope.conf).of("broker")
        if start.rate is None
        else start.rate.rate()
    )
    published = PublishRate(start.publish.get("msg", 0.0), start.publish.get("byte", 0.0))
    try:
        made = LIMITERS[kind](rate, start.start_nanos, published)
    except SettingsError:
        yield {"error": expected.error}, {"error": _REFUSED}
        return
    yield from _compared(case, _LimiterPlayer(made, start.start_nanos, published), start.ops)


def _compared(
    case: Case, player: _BucketPlayer | _LimiterPlayer, operations: Sequence[Sequence[Any]]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    expected = case.read(_Operations).expect
    if expected.error is None and len(operations) != len(expected.results):
        raise SettingsError(
            [f"{case.where}: {len(operations)} operations but {len(expected.results)} answers"]
        )
    for (name, *arguments), answer in zip(operations, expected.results, strict=False):
        yield {name: answer}, {name: player.play(name, arguments)}
    if expected.error is not None:
        yield {"error": expected.error}, _failure(player, operations[len(expected.results) :])


def _failure(
    player: _LimiterPlayer | _BucketPlayer, operations: Sequence[Sequence[Any]]
) -> dict[str, str]:
    """The answer of the operation that Java's class refused."""
    try:
        for name, *arguments in operations[:1]:
            player.play(name, arguments)
    except SettingsError:
        return {"error": _REFUSED}
    return {}

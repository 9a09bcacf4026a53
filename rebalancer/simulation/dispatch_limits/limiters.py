"""The two dispatch limiters: one limit for messages, one for bytes, over token buckets or over classic counters.

Source of the rule: `DispatchRateLimiterAsyncTokenBucket` and `DispatchRateLimiterClassic` of Pulsar 4.2.4. A limiter is data: every step
returns the limiter after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from rebalancer.simulation.dispatch_limits import classic, token_bucket
from rebalancer.simulation.dispatch_limits.classic import Counter
from rebalancer.simulation.dispatch_limits.rates import DispatchRate, PublishRate, absolute
from rebalancer.simulation.dispatch_limits.token_bucket import SECOND_NS, Bucket, BucketRate
from strategies.settings import Mode

_UNLIMITED = -1


class Permits(NamedTuple):
    """Messages and bytes; −1 is unlimited."""

    messages: int
    bytes: int


class Limiter(Protocol):
    """What both limiters can do. Times are nanoseconds of one monotonic clock, `published` is what the topic receives at that time."""

    def seen(self, now_ns: int, published: PublishRate) -> Self:
        """The limiter as a dispatcher sees it that looks now: what time has brought is in it."""

    def charged(self, messages: int, bytes_: int, now_ns: int) -> Self:
        """The limiter after this was dispatched; nothing is refused."""

    def updated(self, rate: DispatchRate, now_ns: int, published: PublishRate) -> Self:
        """The limiter after its policy changed."""

    @property
    def available(self) -> Permits:
        """What may be dispatched, by the last look; 0 while in debt."""

    def rates(self, published: PublishRate) -> Permits:
        """What is allowed per period."""


@dataclass(frozen=True, slots=True)
class BucketLimiter:
    """Two token buckets; None is unlimited. The period also is the resolution: tokens arrive once per period."""

    rate: DispatchRate
    messages: Bucket | None
    bytes: Bucket | None
    mode: Mode = "fixed"

    @classmethod
    def started(cls, rate: DispatchRate, now_ns: int, published: PublishRate = PublishRate(), mode: Mode = "fixed") -> BucketLimiter:
        """Full buckets. A policy that does not say its period (0) means one second."""
        messages, bytes_ = _bucket_rates(rate, published, mode)
        return cls(rate, _full(messages, now_ns), _full(bytes_, now_ns), mode)

    def seen(self, now_ns: int, published: PublishRate = PublishRate()) -> BucketLimiter:
        """With the tokens that have arrived by now."""
        messages, bytes_ = _bucket_rates(self.rate, published, self.mode)
        return replace(self, messages=_filled(self.messages, messages, now_ns), bytes=_filled(self.bytes, bytes_, now_ns))

    def charged(self, messages: int, bytes_: int, now_ns: int) -> BucketLimiter:
        """With that much more debt."""
        del now_ns  # tokens come to those who look
        return replace(
            self,
            messages=self.messages and token_bucket.charge(self.messages, messages),
            bytes=self.bytes and token_bucket.charge(self.bytes, bytes_),
        )

    def updated(self, rate: DispatchRate, now_ns: int, published: PublishRate = PublishRate()) -> BucketLimiter:
        """New full buckets: a change of policy forgives all debt."""
        return self.started(rate, now_ns, published, self.mode)

    @property
    def available(self) -> Permits:
        """Balances of the last look; pending charges count, new tokens do not."""
        return Permits(*(_UNLIMITED if bucket is None else max(0, bucket.balance) for bucket in (self.messages, self.bytes)))

    def rates(self, published: PublishRate = PublishRate()) -> Permits:
        """What is allowed per period at this publish rate."""
        return Permits(*(part or _UNLIMITED for part in absolute(self.rate, published)))


@dataclass(frozen=True, slots=True)
class ClassicLimiter:
    """Two classic counters; None is unlimited."""

    rate: DispatchRate
    messages: Counter | None
    bytes: Counter | None

    @classmethod
    def started(cls, rate: DispatchRate, now_ns: int, published: PublishRate = PublishRate(), mode: Mode = "fixed") -> ClassicLimiter:
        """Nothing used yet; a relative rate counts as the configured one until the first tick. SettingsError for a period of 0.

        Both modes are the same.
        """
        del published, mode  # what is published is asked for at the first tick
        return cls(rate, None, None).updated(rate, now_ns)

    def seen(self, now_ns: int, published: PublishRate = PublishRate()) -> ClassicLimiter:
        """With all ticks until now; call it before the publish rate changes, for a tick takes over the rate of its own time."""
        messages, bytes_ = absolute(self.rate, published)
        return replace(self, messages=_ticked(self.messages, messages, now_ns), bytes=_ticked(self.bytes, bytes_, now_ns))

    def charged(self, messages: int, bytes_: int, now_ns: int) -> ClassicLimiter:
        """With that much more used."""
        return replace(
            self,
            messages=self.messages and classic.charge(self.messages, messages, now_ns),
            bytes=self.bytes and classic.charge(self.bytes, bytes_, now_ns),
        )

    def updated(self, rate: DispatchRate, now_ns: int, published: PublishRate = PublishRate()) -> ClassicLimiter:
        """What was used stays used, unless the limit goes away altogether."""
        del published
        period = rate.period_s * SECOND_NS
        return ClassicLimiter(
            rate, _restarted(self.messages, rate.messages, period, now_ns), _restarted(self.bytes, rate.bytes, period, now_ns)
        )

    @property
    def available(self) -> Permits:
        """What is left of the current period."""
        return Permits(*(_UNLIMITED if counter is None else counter.available for counter in (self.messages, self.bytes)))

    def rates(self, published: PublishRate = PublishRate()) -> Permits:
        """What is allowed per period since the last tick."""
        del published
        return Permits(*(_UNLIMITED if counter is None else counter.permits for counter in (self.messages, self.bytes)))


#: Name in our settings → how a limiter of that kind starts; the classes in Pulsar are DispatchRateLimiterFactory<AsyncTokenBucket|Classic>.
LIMITERS: Mapping[str, Callable[[DispatchRate, int, PublishRate, Mode], BucketLimiter | ClassicLimiter]] = MappingProxyType(
    {"token_bucket": BucketLimiter.started, "classic": ClassicLimiter.started}
)


def _bucket_rates(rate: DispatchRate, published: PublishRate, mode: Mode) -> tuple[BucketRate | None, BucketRate | None]:
    period = max(rate.period_s, 1) * SECOND_NS
    messages, bytes_ = (BucketRate(part, period, period, mode=mode) if part else None for part in absolute(rate, published))
    return messages, bytes_


def _full(rate: BucketRate | None, now_ns: int) -> Bucket | None:
    return None if rate is None else token_bucket.full(rate, now_ns)


def _filled(bucket: Bucket | None, rate: BucketRate | None, now_ns: int) -> Bucket | None:
    return bucket if bucket is None or rate is None else token_bucket.fill(bucket, rate, now_ns)


def _ticked(counter: Counter | None, permits: int, now_ns: int) -> Counter | None:
    return None if counter is None else classic.tick(counter, now_ns, permits)


def _restarted(counter: Counter | None, permits: int, period_ns: int, now_ns: int) -> Counter | None:
    if permits <= 0:
        return None
    return classic.unused(permits, period_ns) if counter is None else classic.changed(counter, permits, period_ns, now_ns)

"""The two dispatch limiters: one limit for messages, one for bytes, over token buckets or over
classic counters.

Source of the rule: `DispatchRateLimiterAsyncTokenBucket` and `DispatchRateLimiterClassic` of Pulsar
4.2.4. A limiter is data: every step returns the limiter after it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from pulsar_rebalancer.lab.simulation.dispatch_limits import classic, token_bucket
from pulsar_rebalancer.lab.simulation.dispatch_limits.classic import Counter
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import (
    SECOND_NS,
    Bucket,
    BucketRate,
)
from strategies.settings import Setting

#: Scope of a limiter: all topics of a broker, a topic (one partition), or one subscription of it.
Scope = Literal["broker", "topic", "subscription"]


@dataclass(frozen=True, slots=True)
class PublishRate:
    """The measured publish rate of a topic, per second."""

    messages: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """Messages and bytes per period; a part of 0 or less is unlimited. `period_s`: as in the
    policy, 0 if absent.
    """

    messages: int = 0
    bytes: int = 0
    period_s: int = 1
    relative: bool = False

    @property
    def is_set(self) -> bool:
        """Whether either part is limited. "−1/−1" does not lift a limit, it sets none: the next
        level applies.
        """
        return self.messages > 0 or self.bytes > 0


def _per(level: str, key: str) -> tuple[Setting, Setting]:
    text = "0 or less is unlimited"
    return (
        Setting(f"Messages a second {level}; {text}", "msg/s", f"{key}InMsg", ge=-1, le=2**31 - 1),
        Setting(f"Bytes a second {level}; {text}", "bytes/s", f"{key}InByte", ge=-1, le=2**63 - 1),
    )


_BROKER = _per("for all subscriptions of a broker together", "dispatchThrottlingRate")
_TOPIC = _per("for a topic (each partition)", "dispatchThrottlingRatePerTopic")
_SUBSCRIPTION = _per(
    "for a subscription (of each partition)", "dispatchThrottlingRatePerSubscription"
)


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """A broker's own rates, with Pulsar's defaults: no limits. They are per second and never
    relative.
    """

    messages: Annotated[int, _BROKER[0]] = 0
    bytes: Annotated[int, _BROKER[1]] = 0
    topic_messages: Annotated[int, _TOPIC[0]] = 0
    topic_bytes: Annotated[int, _TOPIC[1]] = 0
    subscription_messages: Annotated[int, _SUBSCRIPTION[0]] = 0
    subscription_bytes: Annotated[int, _SUBSCRIPTION[1]] = 0

    def of(self, scope: Scope) -> DispatchRate:
        """The rate of one scope."""
        parts = {
            "broker": (self.messages, self.bytes),
            "topic": (self.topic_messages, self.topic_bytes),
            "subscription": (self.subscription_messages, self.subscription_bytes),
        }
        return DispatchRate(*parts[scope])


@dataclass(frozen=True, slots=True)
class RatePolicies:
    """The policies of one topic or of its subscriptions, the nearest level first; None: no
    policy.
    """

    topic: DispatchRate | None = None
    namespace: DispatchRate | None = None


def effective(scope: Scope, policies: RatePolicies, broker: BrokerRates) -> DispatchRate:
    """The effective rate: that of the nearest level that sets a limit, otherwise the broker's
    default. Policies never set broker limits.
    """
    levels: Iterable[DispatchRate | None] = (
        () if scope == "broker" else (policies.topic, policies.namespace)
    )
    return next((rate for rate in levels if rate is not None and rate.is_set), broker.of(scope))


def absolute(rate: DispatchRate, published: PublishRate) -> tuple[int, int]:
    """Messages and bytes per period, 0 for unlimited; a relative rate adds the publish rate of the
    topic (rounded down).
    """
    more = (int(published.messages), int(published.bytes)) if rate.relative else (0, 0)
    return _part(rate.messages, more[0]), _part(rate.bytes, more[1])


def _part(configured: int, more: int) -> int:
    """A relative part of a rate; unlimited stays unlimited at any publish rate."""
    return configured + more if configured > 0 else 0


_UNLIMITED = -1


class Permits(NamedTuple):
    """Messages and bytes; −1 is unlimited."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BucketLimiter:
    """Two token buckets; None is unlimited. Tokens are added once per period."""

    rate: DispatchRate
    messages: Bucket | None
    bytes: Bucket | None

    @classmethod
    def started(
        cls,
        rate: DispatchRate,
        now_ns: int,
        published: PublishRate = PublishRate(),
    ) -> "BucketLimiter":
        """A limiter with full buckets. A policy without a period (0) has one of one second."""
        messages, bytes_ = _bucket_rates(rate, published)
        return cls(rate, _full(messages, now_ns), _full(bytes_, now_ns))

    def seen(self, now_ns: int, published: PublishRate = PublishRate()) -> "BucketLimiter":
        """The limiter with the tokens added up to `now_ns`."""
        messages, bytes_ = _bucket_rates(self.rate, published)
        return replace(
            self,
            messages=_filled(self.messages, messages, now_ns),
            bytes=_filled(self.bytes, bytes_, now_ns),
        )

    def charged(self, messages: int, bytes_: int, _now_ns: int) -> "BucketLimiter":
        """The limiter after these tokens are taken, if need be as debt; `seen` adds tokens."""
        return replace(
            self,
            messages=self.messages and token_bucket.charge(self.messages, messages),
            bytes=self.bytes and token_bucket.charge(self.bytes, bytes_),
        )

    def updated(
        self, rate: DispatchRate, now_ns: int, published: PublishRate = PublishRate()
    ) -> "BucketLimiter":
        """The limiter with new, full buckets: a change of policy clears all debt."""
        return self.started(rate, now_ns, published)

    @property
    def available(self) -> Permits:
        """Balances as of the last `seen`, with later charges, without later tokens."""
        return Permits(
            *(
                _UNLIMITED if bucket is None else max(0, bucket.balance)
                for bucket in (self.messages, self.bytes)
            )
        )

    def rates(self, published: PublishRate = PublishRate()) -> Permits:
        """Permits per period at this publish rate."""
        return Permits(*(part or _UNLIMITED for part in absolute(self.rate, published)))


@dataclass(frozen=True, slots=True)
class ClassicLimiter:
    """Two classic counters; None is unlimited."""

    rate: DispatchRate
    messages: Counter | None
    bytes: Counter | None

    @classmethod
    def started(
        cls,
        rate: DispatchRate,
        now_ns: int,
        _published: PublishRate = PublishRate(),
    ) -> "ClassicLimiter":
        """A limiter with nothing used; a relative rate is the configured one until the first tick.
        Raises SettingsError for a period of 0.
        """
        return cls(rate, None, None).updated(rate, now_ns)

    def seen(self, now_ns: int, published: PublishRate = PublishRate()) -> "ClassicLimiter":
        """The limiter after all ticks up to `now_ns`. Call it before the publish rate changes: a
        tick uses the rate of its own time.
        """
        messages, bytes_ = absolute(self.rate, published)
        return replace(
            self,
            messages=_ticked(self.messages, messages, now_ns),
            bytes=_ticked(self.bytes, bytes_, now_ns),
        )

    def charged(self, messages: int, bytes_: int, now_ns: int) -> "ClassicLimiter":
        """The limiter with these units added to the used ones."""
        return replace(
            self,
            messages=self.messages and classic.charge(self.messages, messages, now_ns),
            bytes=self.bytes and classic.charge(self.bytes, bytes_, now_ns),
        )

    def updated(
        self, rate: DispatchRate, now_ns: int, _published: PublishRate = PublishRate()
    ) -> "ClassicLimiter":
        """The limiter with a new rate. Used units stay used, unless the limit is removed."""
        period = rate.period_s * SECOND_NS
        return ClassicLimiter(
            rate,
            _restarted(self.messages, rate.messages, period, now_ns),
            _restarted(self.bytes, rate.bytes, period, now_ns),
        )

    @property
    def available(self) -> Permits:
        """Units left in the current period."""
        return Permits(
            *(
                _UNLIMITED if counter is None else counter.available
                for counter in (self.messages, self.bytes)
            )
        )

    def rates(self, _published: PublishRate = PublishRate()) -> Permits:
        """Permits per period as of the last tick."""
        return Permits(
            *(
                _UNLIMITED if counter is None else counter.permits
                for counter in (self.messages, self.bytes)
            )
        )


#: Name in our settings → constructor of that limiter. Pulsar's classes are
#: DispatchRateLimiterFactory<AsyncTokenBucket|Classic>.
LIMITERS: Mapping[
    str, Callable[[DispatchRate, int, PublishRate], BucketLimiter | ClassicLimiter]
] = MappingProxyType({"token_bucket": BucketLimiter.started, "classic": ClassicLimiter.started})


def _bucket_rates(
    rate: DispatchRate, published: PublishRate
) -> tuple[BucketRate | None, BucketRate | None]:
    period = max(rate.period_s, 1) * SECOND_NS
    messages, bytes_ = (
        BucketRate(part, period, period) if part else None for part in absolute(rate, published)
    )
    return messages, bytes_


def _full(rate: BucketRate | None, now_ns: int) -> Bucket | None:
    """A new bucket with the tokens of one period and no debt."""
    return None if rate is None else Bucket(rate.tokens, 0, now_ns, 0)


def _filled(bucket: Bucket | None, rate: BucketRate | None, now_ns: int) -> Bucket | None:
    return bucket if bucket is None or rate is None else token_bucket.fill(bucket, rate, now_ns)


def _ticked(counter: Counter | None, permits: int, now_ns: int) -> Counter | None:
    return None if counter is None else classic.tick(counter, now_ns, permits)


def _restarted(
    counter: Counter | None, permits: int, period_ns: int, now_ns: int
) -> Counter | None:
    if permits <= 0:
        return None
    return (
        classic.unused(permits, period_ns)
        if counter is None
        else classic.changed(counter, permits, period_ns, now_ns)
    )

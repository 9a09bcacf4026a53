"""Limits of several scopes combined: broker, then topic, then subscription.

Source of the rule: `AbstractPersistentDispatcherMultipleConsumers` and `AbstractDispatcherSingleActiveConsumer` of Pulsar
4.2.4. All limits of a path apply (logical AND); each is charged with what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalancer.simulation.dispatch_limits.limiters import LIMITERS, BucketLimiter, ClassicLimiter
from rebalancer.simulation.dispatch_limits.rates import BrokerRates, PublishRate, RatePolicies, Scope, effective
from strategies.settings import Mode

AnyLimiter = BucketLimiter | ClassicLimiter


@dataclass(frozen=True, slots=True)
class Limits:
    """The limiters of one path by scope, in the order of its scopes; unlimited scopes are absent. Limiters may be shared."""

    limiters: Mapping[Scope, AnyLimiter]

    def seen(self, now_ns: int, published: PublishRate = PublishRate()) -> Limits:
        """All limiters at `now_ns`."""
        return Limits({scope: limiter.seen(now_ns, published) for scope, limiter in self.limiters.items()})

    def charged(self, messages: int, bytes_: int, now_ns: int) -> Limits:
        """All limiters after these messages and bytes are sent."""
        return Limits({scope: limiter.charged(messages, bytes_, now_ns) for scope, limiter in self.limiters.items()})


@dataclass(frozen=True, slots=True)
class Allowance:
    """The part of a request that the limits allow. `by`: the scopes that reduced it, in order; `entries` or `bytes` 0: none now."""

    entries: int
    bytes: int
    by: tuple[Scope, ...] = ()


def started(
    scopes: tuple[Scope, ...],
    policies: Mapping[Scope, RatePolicies],
    broker: BrokerRates,
    limiter: str,
    *,
    now_ns: int,
    published: PublishRate = PublishRate(),
    mode: Mode = "fixed",
) -> Limits:
    """New limiters for these scopes, each with its effective rate.

    `limiter`: a key of LIMITERS. Raises SettingsError for rates that the limiter refuses.
    """
    rates = {scope: effective(scope, policies.get(scope, RatePolicies()), broker) for scope in scopes}
    start = LIMITERS[limiter]
    return Limits({scope: start(rate, now_ns, published, mode) for scope, rate in rates.items() if rate.is_set})


def allowed(limits: Limits, entries: int, bytes_: int) -> Allowance:
    """The part of these entries and bytes that the limits allow. Like Pulsar, compares tokens for *messages* with *entries*.

    Scopes after one that allows nothing are not evaluated.
    """
    by: list[Scope] = []
    for scope, limiter in limits.limiters.items():
        messages, size = limiter.available
        fewer, smaller = entries if messages < 0 else min(entries, messages), bytes_ if size < 0 else min(bytes_, size)
        if fewer < entries or smaller < bytes_:
            by.append(scope)
        entries, bytes_ = fewer, smaller
        if entries == 0 or bytes_ == 0:
            break
    return Allowance(entries, bytes_, tuple(by))

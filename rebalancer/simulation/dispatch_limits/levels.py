"""Limits of several scopes together: broker, then topic, then subscription; replicators have their own.

Source of the rule: `AbstractPersistentDispatcherMultipleConsumers`, `AbstractDispatcherSingleActiveConsumer` and
`PersistentReplicator` of Pulsar 4.2.4. All limits of a path apply (logical AND); every one is charged with what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from rebalancer.simulation.dispatch_limits.limiters import LIMITERS, BucketLimiter, ClassicLimiter
from rebalancer.simulation.dispatch_limits.rates import BrokerRates, PublishRate, RatePolicies, Scope, effective
from strategies.settings import Mode, Setting

#: Which limits a dispatcher passes, in this order. A replicator passes only its own.
DISPATCH: tuple[Scope, ...] = ("broker", "topic", "subscription")
REPLICATION: tuple[Scope, ...] = ("replicator",)

AnyLimiter = BucketLimiter | ClassicLimiter


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How a broker dispatches and throttles, with Pulsar's defaults."""

    limiter: Annotated[
        Literal["token_bucket", "classic"], Setting("Which limiter counts", pulsar="dispatchRateLimiterFactoryClassName")
    ] = "token_bucket"
    throttle_active_cursors: Annotated[
        bool, Setting("Whether subscriptions without backlog are limited too", pulsar="dispatchThrottlingOnNonBacklogConsumerEnabled")
    ] = True
    count_batches: Annotated[
        bool, Setting("Whether a batch is charged as one message", pulsar="dispatchThrottlingOnBatchMessageEnabled")
    ] = False
    charge_filtered: Annotated[
        bool, Setting("Whether entries that filters drop are charged", pulsar="dispatchThrottlingForFilteredEntriesEnabled")
    ] = False
    precise_flow_control: Annotated[
        bool, Setting("Whether permits of a consumer are divided by its messages per entry", pulsar="preciseDispatcherFlowControl")
    ] = False
    max_read_entries: Annotated[int, Setting("Most entries of one read", "entries", "dispatcherMaxReadBatchSize", ge=1, le=1_000_000)] = 100
    min_read_entries: Annotated[
        int, Setting("Entries of a read after one failed", "entries", "dispatcherMinReadBatchSize", ge=1, le=1_000_000)
    ] = 1
    max_read_bytes: Annotated[int, Setting("Most bytes of one read", "bytes", "dispatcherMaxReadSizeBytes", ge=1, le=2**31 - 1)] = (
        5 * 1024 * 1024
    )
    backlog_threshold: Annotated[
        int,
        Setting("Backlog up to which a cursor counts as active", "entries", "managedLedgerCursorBackloggedThreshold", ge=0, le=2**63 - 1),
    ] = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limiters of one path by scope, in the order of its scopes; unlimited scopes are absent. Limiters may be shared."""

    limiters: Mapping[Scope, AnyLimiter]

    def seen(self, now_ns: int, published: PublishRate = PublishRate()) -> Limits:
        """All limiters as they are now."""
        return Limits({scope: limiter.seen(now_ns, published) for scope, limiter in self.limiters.items()})

    def charged(self, messages: int, bytes_: int, now_ns: int) -> Limits:
        """All limiters after this was sent."""
        return Limits({scope: limiter.charged(messages, bytes_, now_ns) for scope, limiter in self.limiters.items()})


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the limits leave of a request. `by` names the scopes that shrank it, in order; `entries` or `bytes` 0: not now."""

    entries: int
    bytes: int
    by: tuple[Scope, ...] = ()

    @property
    def is_blocked(self) -> bool:
        """Whether nothing may be read."""
        return self.entries == 0 or self.bytes == 0


def started(
    scopes: tuple[Scope, ...],
    policies: Mapping[Scope, RatePolicies],
    broker: BrokerRates,
    settings: DispatchSettings,
    *,
    now_ns: int,
    published: PublishRate = PublishRate(),
    mode: Mode = "fixed",
) -> Limits:
    """New limiters for these scopes, each with the rate that counts for it. SettingsError for rates the limiter refuses."""
    rates = {scope: effective(scope, policies.get(scope, RatePolicies()), broker) for scope in scopes}
    start = LIMITERS[settings.limiter]
    return Limits({scope: start(rate, now_ns, published, mode) for scope, rate in rates.items() if rate.is_set})


def allowed(limits: Limits, entries: int, bytes_: int) -> Allowance:
    """What the limits leave of these entries and bytes. Tokens for *messages* are compared with *entries*, as Pulsar does.

    The first scope that leaves nothing ends the question.
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

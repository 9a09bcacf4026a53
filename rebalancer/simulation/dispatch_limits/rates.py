"""Dispatch rates as policies and broker.conf give them, and which of several counts.

Source of the rule: `DispatchRate`, `AbstractTopic.updateDispatchRate…` and the hierarchy of topic policies of Pulsar 4.2.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from strategies.settings import Setting

#: Who shares a limiter: everything on a broker, a topic (one partition), one subscription of it, or one replicator of it.
Scope = Literal["broker", "topic", "subscription", "replicator"]


@dataclass(frozen=True, slots=True)
class PublishRate:
    """What a topic was measured to receive, per second."""

    messages: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """Messages and bytes per period; a part of 0 or less is unlimited. `period_s` is what the policy says: 0 when it says nothing."""

    messages: int = 0
    bytes: int = 0
    period_s: int = 1
    relative: bool = False

    @property
    def is_set(self) -> bool:
        """Whether either part limits anything. "−1/−1" is not a limit that is lifted but none at all: the next level decides."""
        return self.messages > 0 or self.bytes > 0


def _per(level: str, key: str) -> tuple[Setting, Setting]:
    text = "0 or less is unlimited"
    return (
        Setting(f"Messages a second {level}; {text}", "msg/s", f"{key}InMsg", ge=-1, le=2**31 - 1),
        Setting(f"Bytes a second {level}; {text}", "bytes/s", f"{key}InByte", ge=-1, le=2**63 - 1),
    )


_BROKER = _per("for all subscriptions of a broker together", "dispatchThrottlingRate")
_TOPIC = _per("for a topic (each partition)", "dispatchThrottlingRatePerTopic")
_SUBSCRIPTION = _per("for a subscription (of each partition)", "dispatchThrottlingRatePerSubscription")
_REPLICATOR = _per("for a replicator (of each partition)", "dispatchThrottlingRatePerReplicator")


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """A broker's own rates, with Pulsar's defaults: no limits. They always count per second and are never relative."""

    messages: Annotated[int, _BROKER[0]] = 0
    bytes: Annotated[int, _BROKER[1]] = 0
    topic_messages: Annotated[int, _TOPIC[0]] = 0
    topic_bytes: Annotated[int, _TOPIC[1]] = 0
    subscription_messages: Annotated[int, _SUBSCRIPTION[0]] = 0
    subscription_bytes: Annotated[int, _SUBSCRIPTION[1]] = 0
    replicator_messages: Annotated[int, _REPLICATOR[0]] = 0
    replicator_bytes: Annotated[int, _REPLICATOR[1]] = 0

    def of(self, scope: Scope) -> DispatchRate:
        """The rate of one scope."""
        parts = {
            "broker": (self.messages, self.bytes),
            "topic": (self.topic_messages, self.topic_bytes),
            "subscription": (self.subscription_messages, self.subscription_bytes),
            "replicator": (self.replicator_messages, self.replicator_bytes),
        }
        return DispatchRate(*parts[scope])


@dataclass(frozen=True, slots=True)
class RatePolicies:
    """What policies say about one topic (and one of its subscriptions or replicators), the nearest level first; None: nothing.

    `own` is the policy of that one subscription; topics and replicators have none.
    """

    own: DispatchRate | None = None
    own_global: DispatchRate | None = None
    topic: DispatchRate | None = None
    topic_global: DispatchRate | None = None
    namespace: DispatchRate | None = None

    def in_order(self) -> tuple[DispatchRate | None, ...]:
        """Whose word counts before whose."""
        return self.own, self.topic, self.own_global, self.topic_global, self.namespace


def effective(scope: Scope, policies: RatePolicies, broker: BrokerRates) -> DispatchRate:
    """The rate that counts: the nearest level that limits anything, else the broker's default. Broker limits know no policies."""
    levels: Iterable[DispatchRate | None] = () if scope == "broker" else policies.in_order()
    return next((rate for rate in levels if rate is not None and rate.is_set), broker.of(scope))


def absolute(rate: DispatchRate, published: PublishRate) -> tuple[int, int]:
    """Messages and bytes per period, 0 for unlimited; a relative rate adds what the topic receives (rounded down)."""
    more = (int(published.messages), int(published.bytes)) if rate.relative else (0, 0)
    return _part(rate.messages, more[0]), _part(rate.bytes, more[1])


def _part(configured: int, more: int) -> int:
    """Unlimited stays unlimited, whatever is published."""
    return configured + more if configured > 0 else 0

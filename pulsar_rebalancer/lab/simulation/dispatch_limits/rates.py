"""Dispatch rates of policies and broker.conf, and the effective one of several levels.

Source of the rule: `DispatchRate`, `AbstractTopic.updateDispatchRate…` and the hierarchy of topic
policies of Pulsar 4.2.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

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

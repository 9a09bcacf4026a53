"""The brokers by which records of intents are judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from strategies.cluster.clock import tolerance_of
from strategies.cluster.store import BrokerState
from strategies.limits import matcher
from strategies.round.round_input import Rules


@dataclass(frozen=True, slots=True)
class IntentFleet:
    """The brokers when a record is judged. `known`: all brokers with reports; `live`: those with
    fresh figures; `excluded`: those that limits.excluded_brokers names.
    """

    known: Collection[str]
    live: Collection[str]
    excluded: Collection[str] = ()


def fleet_of(brokers: Iterable[BrokerState], now_ms: int, rules: Rules) -> IntentFleet:
    """The brokers by which a record is judged."""
    is_excluded, known = matcher(rules.limits.excluded_brokers), list(brokers)
    tolerance = tolerance_of(rules.round)
    live = [
        one.broker
        for one in known
        if one.reported_at_ms >= 0
        and -tolerance <= now_ms - one.reported_at_ms <= rules.round.stale_after_ms
    ]
    names = [one.broker for one in known]
    return IntentFleet(names, live, [name for name in names if is_excluded(name)])

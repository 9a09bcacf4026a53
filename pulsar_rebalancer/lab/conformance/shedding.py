"""The `shedding` suite: histories of load reports, round after round, through a shedder in parity
mode.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pulsar_rebalancer.lab.conformance.case_data import (
    DataMaps,
    RoundData,
    only_active,
    settings_of,
    weights_of,
)
from pulsar_rebalancer.lab.conformance.vectors import Case, Played
from strategies.cluster.model import Decision
from strategies.cluster.strategy_memory import Memory
from strategies.placement.avg import key_of
from strategies.placement.contract import Averages
from strategies.shedding.contract import Shedding
from strategies.shedding.registry import SHEDDERS

#: What another release answers in its own way: AvgShedder's plan by value.
PLAN_OF_42 = frozenset({"plan", "destinations"})
#: Compared besides the unloads of a strategy: the round's answer and the bundles in its data.
State = Callable[[Shedding, Mapping[str, Averages]], dict[str, Any]]


def shed(strategy: str, case: Case, state: State = lambda _, __: {}) -> Played:
    """Replays a case through one strategy of the registry. `state`: compared besides the unloads,
    by default nothing. Raises SettingsError for a case of another form.
    """
    entry, conf = SHEDDERS[strategy], case.envelope.conf
    settings: object = settings_of(entry.settings, conf, case.answered_by)
    shedder = entry.build(settings, weights_of(conf), "parity", case.release)
    maps, memory = DataMaps(), Memory()
    for round_, answer in case.answered(RoundData):
        maps.advance(round_)
        shedding = shedder.shed(
            maps.view(round_), only_active(memory, round_.active_brokers, "ewma")
        )
        memory = shedding.memory
        ours = {"unloads": unloads(shedding.decisions), **state(shedding, maps.bundles)}
        left_out = frozenset[str]() if case.release == case.answered_by else PLAN_OF_42
        yield _without(answer, left_out), _without(ours, left_out)


def _without(answer: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in fields}


def averages(shedding: Shedding, _: Mapping[str, Averages]) -> dict[str, Any]:
    """ThresholdShedder's history."""
    return {
        "ema": {
            broker: kept.ewma
            for broker, kept in shedding.memory.brokers.items()
            if kept.ewma is not None
        }
    }


def hits_and_plan(shedding: Shedding, bundles: Mapping[str, Averages]) -> dict[str, Any]:
    """AvgShedder's counters and plan; where it sent the bundles, by name and as its plan answers
    afterwards.
    """
    planned = shedding.memory.cluster.planned
    state: dict[str, Any] = {
        **hits(shedding),
        "plan": {
            name: planned[key] for name, row in bundles.items() if (key := key_of(row)) in planned
        }
        if planned
        else {},
    }
    if shedding.decisions:
        state["targets"] = targets(shedding.decisions)
        state["destinations"] = {
            decision.bundle: decision.destination for decision in shedding.decisions
        }
    return state


def hits(shedding: Shedding) -> dict[str, Any]:
    """AvgShedder's counters."""
    brokers = shedding.memory.brokers
    high = {name: kept.hit_high for name, kept in brokers.items() if kept.hit_high is not None}
    low = {name: kept.hit_low for name, kept in brokers.items() if kept.hit_low is not None}
    return {"hitHigh": high, "hitLow": low}


def targets(decisions: tuple[Decision, ...]) -> dict[str, Any]:
    """Bundle → the broker its own pair chose. A bundle that two brokers report may belong to two
    pairs; where it is sent counts then.
    """
    chosen: dict[str, Any] = {}
    for decision in decisions:
        twice = decision.bundle in chosen
        chosen[decision.bundle] = (
            decision.destination if twice else decision.evidence["paired_with"]
        )
    return chosen


def unloads(decisions: tuple[Decision, ...]) -> list[tuple[str, list[str]]]:
    """Sources with the bundles that leave them, in the order of the decisions."""
    leaving: dict[str, list[str]] = {}
    for decision in decisions:
        leaving.setdefault(decision.source, []).append(decision.bundle)
    return list(leaving.items())

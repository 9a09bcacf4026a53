"""The `shedding` suite: histories of load reports, round after round, through a shedder in parity
mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalancer.conformance.broker_conf import settings_of, weights_of
from rebalancer.conformance.data_maps import DataMaps, RoundData, only_active
from rebalancer.conformance.vectors import Case, Played
from strategies.model import Decision, Memory, Shedding
from strategies.placement.avg import key_of
from strategies.placement.contract import Averages
from strategies.shedding.registry import SHEDDERS

#: Compared besides the unloads of a strategy: the round's answer and the bundles in its data.
State = Callable[[Shedding, Mapping[str, Averages]], dict[str, Any]]


def shed(strategy: str, state: State, case: Case) -> Played:
    """Replays a case through one strategy of the registry. Raises SettingsError for a case of
    another form.
    """
    entry, conf = SHEDDERS[strategy], case.envelope.conf
    shedder = entry.build(settings_of(entry.settings, conf), weights_of(conf), "parity")
    maps, memory = DataMaps(), Memory()
    for round_, answer in case.answered(RoundData):
        maps.advance(round_)
        shedding = shedder.shed(
            maps.view(round_), only_active(memory, round_.active_brokers, "ewma")
        )
        memory = shedding.memory
        yield (
            answer,
            {"unloads": unloads(shedding.decisions), **state(shedding, maps.bundles)},
        )


def nothing_else(_: Shedding, __: Mapping[str, Averages]) -> dict[str, Any]:
    """For rules without state."""
    return {}


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
    brokers, planned = shedding.memory.brokers, shedding.memory.cluster.planned
    state: dict[str, Any] = {
        "hitHigh": {
            broker: kept.hit_high for broker, kept in brokers.items() if kept.hit_high is not None
        },
        "hitLow": {
            broker: kept.hit_low for broker, kept in brokers.items() if kept.hit_low is not None
        },
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

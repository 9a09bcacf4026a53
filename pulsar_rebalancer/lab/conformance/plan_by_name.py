"""The `placement50` suite: AvgShedder of Pulsar 5.0 as shedder and as placement, with its plan by
bundle name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from pulsar_rebalancer.lab.conformance.broker_conf import settings_of, weights_of
from pulsar_rebalancer.lab.conformance.data_maps import DataMaps, RoundData, TrafficData
from pulsar_rebalancer.lab.conformance.placement import sampled
from pulsar_rebalancer.lab.conformance.shedding import hits, unloads
from pulsar_rebalancer.lab.conformance.vectors import Case, Played
from strategies.bundles.bundle_loads import no_bundles
from strategies.cluster.memory import Memory
from strategies.cluster.model import BrokerLoad
from strategies.figures.usage import weighted_usage
from strategies.placement.contract import UNKNOWN, Candidate, Placer, Request
from strategies.placement.registry import PLACERS
from strategies.settings import Weights
from strategies.shedding.registry import SHEDDERS


class _NamedLookUp(msgspec.Struct, frozen=True):
    """A look-up; without a bundle the caller has no name."""

    bundle: str | None
    candidates: list[str]
    sample: TrafficData | None = None


class _Attempt(RoundData, frozen=True, rename="camel"):
    """A round; the plan ends with a completed attempt."""

    shed: bool = True
    completed: bool = True
    place: list[_NamedLookUp] = msgspec.field(default_factory=list)
    place_after: list[_NamedLookUp] = msgspec.field(default_factory=list)


def planned_by_name(case: Case) -> Played:
    """Replays a case. Raises SettingsError for a case of another form."""
    conf, release = case.envelope.conf, case.release
    strategy, placement = SHEDDERS["avg"], PLACERS["avg"]
    of_shedder: object = settings_of(strategy.settings, conf, case.answered_by)
    of_placer: object = settings_of(placement.settings, conf, case.answered_by)
    weights = weights_of(conf)
    shedder = strategy.build(of_shedder, weights, "parity", release)
    look_up = partial(_looked_up, placement.build(of_placer, "parity", release), weights)
    maps, memory = DataMaps(), Memory()
    for round_, answer in case.answered(_Attempt):
        maps.advance(round_)
        ours: dict[str, Any] = {}
        if round_.shed:
            shedding = shedder.shed(maps.view(round_), memory)
            memory = shedding.memory
            ours = {"unloads": unloads(shedding.decisions), **hits(shedding)}
        ours["plan"] = {bundle: list(brokers) for bundle, brokers in memory.plan.items()}
        if round_.place:
            ours["placed"] = look_up(round_.place, maps, memory)
        if round_.completed:
            memory = replace(memory, plan={})
        if round_.place_after:
            ours["placedAfter"] = look_up(round_.place_after, maps, memory)
        yield answer, ours


def _looked_up(
    placer: Placer,
    weights: Weights,
    look_ups: Sequence[_NamedLookUp],
    maps: DataMaps,
    memory: Memory,
) -> list[dict[str, Any]]:
    """The brokers that can be drawn, of each look-up. None of them changes the memory."""
    found = []
    for one in look_ups:
        averages = maps.bundles.get(one.bundle or "", UNKNOWN)
        if one.sample is not None:
            averages = sampled(averages, one.sample)
        candidates = {name: _candidate(name, maps, weights) for name in one.candidates}
        placement = placer.place(Request(one.bundle or "", averages, candidates, ""), memory)
        changed = placement.memory is not memory
        found.append({"best": list(placement.best), **({"changed": True} if changed else {})})
    return found


def _candidate(name: str, maps: DataMaps, weights: Weights) -> Candidate | None:
    if name not in maps.brokers:
        return None
    figures, _ = maps.brokers[name]
    usage = weighted_usage(figures, weights)
    return Candidate(BrokerLoad(name, figures, no_bundles), usage, usage)

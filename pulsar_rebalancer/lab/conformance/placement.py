"""The `placement` suite: look-ups of bundles that need a broker, and AvgShedder's plan from
shedding to look-up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from pulsar_rebalancer.lab.conformance.case_data import (
    AverageData,
    BrokerData,
    BundleData,
    DataMaps,
    RoundData,
    TrafficData,
    averages_of,
    only_active,
    patched,
    settings_of,
    weights_of,
)
from pulsar_rebalancer.lab.conformance.shedding import hits, targets, unloads
from pulsar_rebalancer.lab.conformance.vectors import Case, Number, Played
from strategies.averages.bundle_averages import LONG_SAMPLES, SHORT_SAMPLES, advance
from strategies.bundles import BundleLoads, no_bundles
from strategies.cluster.model import BrokerLoad, Decision
from strategies.cluster.strategy_memory import BrokerMemory, Memory
from strategies.errors import SettingsError
from strategies.figures.usage import weighted_usage
from strategies.placement.avg import ParityAvgPlacement, key_of
from strategies.placement.contract import UNKNOWN, Averages, Candidate, Placer, Request
from strategies.placement.least_resource_usage import smoothed
from strategies.placement.registry import PLACERS
from strategies.settings import Weights
from strategies.shedding.avg.parity import with_planned
from strategies.shedding.registry import SHEDDERS

#: Java's exception for a candidate without load data.
_THROWN = {"error": "java.lang.NullPointerException"}


class _TimeAverage(msgspec.Struct, frozen=True, rename="camel"):
    long_term_msg_rate_in: Number = 0.0
    long_term_msg_rate_out: Number = 0.0


class _Arrival(msgspec.Struct, frozen=True, rename="camel"):
    long_term: AverageData = AverageData()


class _PlacementBroker(BrokerData, frozen=True, rename="camel"):
    time_average: _TimeAverage = _TimeAverage()
    preallocated: dict[str, _Arrival] = msgspec.field(default_factory=dict)
    weighted_max_ema: Number | None = msgspec.field(default=None, name="weightedMaxEMA")


class _PlacementRound(msgspec.Struct, frozen=True, rename="camel"):
    candidates: list[str]
    brokers: dict[str, _PlacementBroker | None] = {}
    active_brokers: list[str] | None = None
    patch: bool = False


class _LookUp(msgspec.Struct, frozen=True):
    bundle: str
    candidates: list[str]
    sample: TrafficData | None = None
    data: BundleData | None = None


class _PlannedRound(RoundData, frozen=True, rename="camel"):
    shed: bool = True
    place: list[_LookUp] = msgspec.field(default_factory=list)


def placed(
    placement: str, case: Case, state: Callable[[Memory], dict[str, Any]] = lambda _: {}
) -> Played:
    """Replays a case through one placement of the registry, one bundle per round. `state`: compared
    besides the best brokers. Raises SettingsError for a case of another form.
    """
    entry, conf = PLACERS[placement], case.envelope.conf
    placer, weights = entry.build(settings_of(entry.settings, conf), "parity"), weights_of(conf)
    brokers, memory = dict[str, _PlacementBroker](), Memory()
    for number, (round_, answer) in enumerate(case.answered(_PlacementRound)):
        brokers = patched(brokers, round_.brokers, lambda broker: broker, is_patch=round_.patch)
        memory = _with_averages(
            only_active(memory, round_.active_brokers, "placement_ewma"), brokers
        )
        candidates = {
            name: _candidate(name, brokers.get(name), weights) for name in round_.candidates
        }
        found = placer.place(Request("", UNKNOWN, candidates, str(number)), memory)
        memory = found.memory
        yield (
            answer,
            _THROWN
            if found.code == "unknown-broker"
            else {"best": list(found.best), **state(memory)},
        )


def smoothed_usage(memory: Memory) -> dict[str, Any]:
    """The history of LeastResourceUsageWithWeight."""
    return {"ema": smoothed(memory)}


@dataclass
class _Plan:
    """AvgShedder's plan while a case is played.

    `owners`: entry → bundle of this round whose own object is the key in Java's map; `sampled`:
    averages that changed in this round.
    """

    memory: Memory = Memory()
    owners: dict[str, str] = field(default_factory=dict)
    sampled: dict[str, Averages] = field(default_factory=dict)

    def take_over(self, bundle: str, key: str, before: Memory) -> None:
        """An entry belongs to the object it was first stored with."""
        if key not in before.cluster.planned:
            self.owners.setdefault(key, bundle)

    def changed(self, bundle: str, old: str, new: str) -> None:
        """Changes the value of a bundle's object: if it is a key of the map, its entry cannot be
        found any more.
        """
        if old != new and self.owners.get(old) == bundle:
            del self.owners[old]
            planned = {
                key: broker for key, broker in self.memory.cluster.planned.items() if key != old
            }
            self.memory = replace(
                self.memory, cluster=replace(self.memory.cluster, planned=planned)
            )


def planned(case: Case) -> Played:
    """Replays a case through AvgShedder as shedder and as placement. Raises SettingsError for a
    case of another form.
    """
    if case.release != case.answered_by:
        raise SettingsError(
            [
                f"{case.where}: AvgShedder of Pulsar {case.release} has another plan: suite "
                "placement50 compares it"
            ]
        )
    maps, plan = DataMaps(), _Plan()
    for round_, answer in case.answered(_PlannedRound):
        maps.advance(round_)
        # Every round has objects of its own.
        plan.owners, plan.sampled = {}, {}
        shed = _shed(case, round_, maps, plan) if round_.shed else {}
        taken = [
            _place(look_up, was, maps, plan)
            for look_up, was in zip(round_.place, answer.get("placed", []), strict=True)
        ]
        yield answer, {**shed, **({"placed": taken} if "placed" in answer else {})}


def _shed(case: Case, round_: _PlannedRound, maps: DataMaps, plan: _Plan) -> dict[str, Any]:
    entry, conf, before = SHEDDERS["avg"], case.envelope.conf, plan.memory
    shedder = entry.build(settings_of(entry.settings, conf), weights_of(conf), "parity")
    shedding = shedder.shed(maps.view(round_), before)
    plan.memory = shedding.memory
    for decision in sorted(shedding.decisions, key=_pairing):
        plan.take_over(decision.bundle, key_of(maps.bundles[decision.bundle]), before)
    return {"unloads": unloads(shedding.decisions), "targets": targets(shedding.decisions)}


def _place(look_up: _LookUp, was: Mapping[str, Any], maps: DataMaps, plan: _Plan) -> dict[str, Any]:
    averages, before = _averages(look_up, maps, plan), plan.memory
    request = Request(look_up.bundle, averages, dict.fromkeys(look_up.candidates), look_up.bundle)
    placement = ParityAvgPlacement().place(request, before)
    drawn, chosen = placement.code == "drawn", placement.chosen
    if drawn:
        # Any candidate is correct; to continue as Java did, the plan gets Java's draw.
        chosen = was.get("chosen") if was.get("chosen") in placement.best else chosen
        planned = with_planned(before.cluster, {key_of(averages): str(chosen)})
        plan.memory = replace(before, cluster=planned)
        plan.take_over(look_up.bundle, key_of(averages), before)
    return {"random": drawn, "chosen": chosen}


def _averages(look_up: _LookUp, maps: DataMaps, plan: _Plan) -> Averages:
    """The averages a look-up sees, after one more sample if it brings one."""
    if look_up.data is not None:
        return averages_of(look_up.data)
    known = plan.sampled.get(look_up.bundle) or maps.bundles[look_up.bundle]
    if look_up.sample is None:
        return known
    newer = sampled(known, look_up.sample)
    plan.changed(look_up.bundle, key_of(known), key_of(newer))
    plan.sampled[look_up.bundle] = newer
    return newer


def _pairing(decision: Decision) -> tuple[float, float]:
    """Sorts decisions in the order of their pairs: the emptiest broker and the fullest first."""
    under, over = decision.evidence["under_score"], decision.evidence["over_score"]
    return float(under or 0.0), -float(over or 0.0)


def sampled(known: Averages, sample: TrafficData) -> Averages:
    """The averages of a bundle after one more sample."""
    averages, counts = advance(
        np.array([known.short, known.long]),
        np.array([known.short_samples, known.long_samples]),
        np.array([SHORT_SAMPLES, LONG_SAMPLES]),
        np.array(sample.columns()),
    )
    short, long = averages.tolist()
    return Averages(tuple(short), tuple(long), int(counts[0]), int(counts[1]))


def _candidate(name: str, broker: _PlacementBroker | None, weights: Weights) -> Candidate | None:
    """A broker whose bundles' long-term rates are put into one row, because only their sum is
    given.
    """
    if broker is None:
        return None
    rates = broker.time_average
    row = np.array(
        [[float(rates.long_term_msg_rate_in), float(rates.long_term_msg_rate_out), 0.0, 0.0]]
    )
    one = np.ones(1, dtype=np.int64)
    table = BundleLoads(("",), row, row, one, one, one, one, row)
    arriving = {
        bundle: replace(UNKNOWN, long=arrival.long_term.columns())
        for bundle, arrival in broker.preallocated.items()
    }
    load = BrokerLoad(name, broker.figures(), lambda: table)
    usage = weighted_usage(load.figures, weights)
    return Candidate(load, usage, usage, arriving)


def _with_averages(memory: Memory, brokers: Mapping[str, _PlacementBroker]) -> Memory:
    """The extensible load manager's store of load data, if the case has one."""
    stored = {
        name: float(broker.weighted_max_ema)
        for name, broker in brokers.items()
        if broker.weighted_max_ema is not None
    }
    return (
        replace(memory, brokers={name: BrokerMemory(ewma=usage) for name, usage in stored.items()})
        if stored
        else memory
    )


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
        candidates = {name: _named_candidate(name, maps, weights) for name in one.candidates}
        placement = placer.place(Request(one.bundle or "", averages, candidates, ""), memory)
        changed = placement.memory is not memory
        found.append({"best": list(placement.best), **({"changed": True} if changed else {})})
    return found


def _named_candidate(name: str, maps: DataMaps, weights: Weights) -> Candidate | None:
    if name not in maps.brokers:
        return None
    figures, _ = maps.brokers[name]
    usage = weighted_usage(figures, weights)
    return Candidate(BrokerLoad(name, figures, no_bundles), usage, usage)

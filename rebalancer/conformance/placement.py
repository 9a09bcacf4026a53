"""The `placement` suite: look-ups of bundles that need a broker, and AvgShedder's plan from
shedding to look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from rebalancer.conformance.active_brokers import only_active
from rebalancer.conformance.broker_conf import settings_of, weights_of
from rebalancer.conformance.data_maps import (
    AverageData,
    BrokerData,
    BundleData,
    BundleRow,
    DataMaps,
    RoundData,
    TrafficData,
    patched,
    row_of,
)
from rebalancer.conformance.shedding import targets, unloads
from rebalancer.conformance.vectors import Case, Number
from strategies.averages.bundle_averages import LONG_SAMPLES, SHORT_SAMPLES, advance
from strategies.bundles.bundle_loads import BundleLoads
from strategies.model import BrokerLoad, BrokerMemory, Decision, Memory
from strategies.placement.avg import ParityAvgPlacement, planned_to
from strategies.placement.contract import UNKNOWN, Averages, Candidate, Placement, Request, Row
from strategies.placement.least_resource_usage import smoothed
from strategies.placement.registry import PLACERS
from strategies.settings import Weights
from strategies.shedding.registry import SHEDDERS
from strategies.usage import weighted_usage

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


@dataclass(frozen=True)
class PlacementSuite:
    """Replays a case through one placement of the registry, one bundle per round. `state`: compared
    besides the best brokers.
    """

    placement: str
    state: Callable[[Memory], dict[str, Any]] = lambda _: {}

    def replay(self, case: Case) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Per look-up: what Java answered, what we answer. Raises SettingsError for a case of
        another form.
        """
        entry, conf = PLACERS[self.placement], case.envelope.conf
        placer, weights = entry.build(settings_of(entry.settings, conf), "parity"), weights_of(conf)
        brokers, memory = dict[str, _PlacementBroker](), Memory()
        for number, (round_, answer) in enumerate(case.answered(_PlacementRound)):
            if not round_.patch:
                brokers = {}
            patched(brokers, round_.brokers, lambda broker: broker)
            memory = _with_averages(
                only_active(memory, round_.active_brokers, "placement_ewma"), brokers
            )
            candidates = {
                name: _candidate(name, brokers.get(name), weights) for name in round_.candidates
            }
            placement = placer.place(Request("", UNKNOWN, candidates, str(number)), memory)
            memory = placement.memory
            yield answer, self._answer(placement)

    def _answer(self, placement: Placement) -> dict[str, Any]:
        if placement.code == "unknown-broker":
            return _THROWN
        return {"best": list(placement.best), **self.state(placement.memory)}


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
    sampled: dict[str, BundleRow] = field(default_factory=dict)

    def open_round(self) -> None:
        """Every round has objects of its own."""
        self.owners, self.sampled = {}, {}

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


@dataclass(frozen=True)
class PlannedSuite:
    """Replays a case through AvgShedder as shedder and as placement."""

    def replay(self, case: Case) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Per round: what Java answered, what we answer. Raises SettingsError for a case of another
        form.
        """
        maps, plan = DataMaps(), _Plan()
        for round_, answer in case.answered(_PlannedRound):
            maps.advance(round_)
            plan.open_round()
            shed = self._shed(case, round_, maps, plan) if round_.shed else {}
            placed = [
                self._place(look_up, was, maps, plan)
                for look_up, was in zip(round_.place, answer.get("placed", []), strict=True)
            ]
            yield answer, {**shed, **({"placed": placed} if "placed" in answer else {})}

    def _shed(
        self, case: Case, round_: _PlannedRound, maps: DataMaps, plan: _Plan
    ) -> dict[str, Any]:
        entry, conf, before = SHEDDERS["avg"], case.envelope.conf, plan.memory
        shedder = entry.build(settings_of(entry.settings, conf), weights_of(conf), "parity")
        shedding = shedder.shed(maps.view(round_), before)
        plan.memory = shedding.memory
        for decision in sorted(shedding.decisions, key=_pairing):
            plan.take_over(decision.bundle, maps.bundles[decision.bundle].key, before)
        return {"unloads": unloads(shedding.decisions), "targets": targets(shedding.decisions)}

    def _place(
        self, look_up: _LookUp, was: Mapping[str, Any], maps: DataMaps, plan: _Plan
    ) -> dict[str, Any]:
        row = self._row(look_up, maps, plan)
        averages = Averages(
            _columns(row.short), _columns(row.long), row.short_samples, row.long_samples, row.topics
        )
        request = Request(
            look_up.bundle, averages, dict.fromkeys(look_up.candidates), look_up.bundle
        )
        placement, before = ParityAvgPlacement().place(request, plan.memory), plan.memory
        drawn, chosen = placement.code == "drawn", placement.chosen
        if drawn:
            # Any candidate is correct; to continue as Java did, the plan gets Java's draw.
            chosen = was.get("chosen") if was.get("chosen") in placement.best else chosen
            plan.memory = planned_to(before, row.key, str(chosen))
            plan.take_over(look_up.bundle, row.key, before)
        return {"random": drawn, "chosen": chosen}

    def _row(self, look_up: _LookUp, maps: DataMaps, plan: _Plan) -> BundleRow:
        """The averages a look-up sees, after one more sample if it brings one."""
        if look_up.data is not None:
            return row_of(look_up.data)
        row = plan.sampled.get(look_up.bundle) or maps.bundles[look_up.bundle]
        if look_up.sample is None:
            return row
        newer = _sampled(row, look_up.sample)
        plan.changed(look_up.bundle, row.key, newer.key)
        plan.sampled[look_up.bundle] = newer
        return newer


def _pairing(decision: Decision) -> tuple[float, float]:
    """Sorts decisions in the order of their pairs: the emptiest broker and the fullest first."""
    under, over = decision.evidence["under_score"], decision.evidence["over_score"]
    return float(under or 0.0), -float(over or 0.0)


def _sampled(row: BundleRow, sample: TrafficData) -> BundleRow:
    figures = np.array([sample.columns()])
    short, short_samples = advance(
        np.array([row.short]), np.array([row.short_samples]), SHORT_SAMPLES, figures
    )
    long, long_samples = advance(
        np.array([row.long]), np.array([row.long_samples]), LONG_SAMPLES, figures
    )
    return BundleRow(
        tuple(short[0].tolist()),
        tuple(long[0].tolist()),
        int(short_samples[0]),
        int(long_samples[0]),
        0,
    )


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


def _columns(row: tuple[float, ...]) -> Row:
    rate_in, rate_out, throughput_in, throughput_out = row
    return rate_in, rate_out, throughput_in, throughput_out

"""The `shedding` suite: histories of load reports, round after round, through a shedder in parity mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from cli.conformance.conf import settings_of, weights_of
from cli.conformance.vectors import Case, Number
from strategies.errors import SettingsError
from strategies.model import BrokerLoad, BundleLoads, ClusterView, Decision, Figures, Memory, Resource, Shedding, Traffic
from strategies.shedding.avg_parity import plan_key
from strategies.shedding.registry import SHEDDERS


class _Resource(msgspec.Struct, frozen=True):
    usage: Number = 0.0
    limit: Number = 0.0

    def figures(self) -> Resource:
        return Resource(float(self.usage), float(self.limit))


class _Traffic(msgspec.Struct, frozen=True, rename="camel"):
    msg_rate_in: Number = 0.0
    msg_rate_out: Number = 0.0
    msg_throughput_in: Number = 0.0
    msg_throughput_out: Number = 0.0

    def columns(self) -> tuple[float, float, float, float]:
        return float(self.msg_rate_in), float(self.msg_rate_out), float(self.msg_throughput_in), float(self.msg_throughput_out)


class _Broker(_Traffic, frozen=True, rename="camel"):
    cpu: _Resource = _Resource()
    memory: _Resource = _Resource()
    direct_memory: _Resource = _Resource()
    bandwidth_in: _Resource = _Resource()
    bandwidth_out: _Resource = _Resource()
    bundles: list[str] = []

    def figures(self) -> Figures:
        return Figures(
            self.cpu.figures(),
            self.memory.figures(),
            self.direct_memory.figures(),
            self.bandwidth_in.figures(),
            self.bandwidth_out.figures(),
            Traffic(*self.columns()),
            len(set(self.bundles)),
        )


class _Average(_Traffic, frozen=True, rename="camel"):
    num_samples: int | None = None


class _Bundle(msgspec.Struct, frozen=True, rename="camel"):
    short_term: _Average = _Average()
    long_term: _Average | None = None
    topics: int = 0


class _Round(msgspec.Struct, frozen=True, rename="camel"):
    brokers: dict[str, _Broker | None] = {}
    bundle_data: dict[str, _Bundle | None] = {}
    recently_unloaded: dict[str, Number] = {}
    active_brokers: list[str] | None = None
    patch: bool = False


class _Rounds(msgspec.Struct, frozen=True):
    rounds: list[_Round]


class _Expected(msgspec.Struct, frozen=True):
    rounds: list[dict[str, Any]]


class _Answered(msgspec.Struct, frozen=True):
    expect: _Expected


@dataclass(frozen=True)
class _BundleRow:
    """A bundle's averages, and what stands for their value in AvgShedder's plan."""

    short: tuple[float, ...]
    long: tuple[float, ...]
    short_samples: int
    long_samples: int
    topics: int

    @cached_property
    def key(self) -> str:
        return plan_key(np.array(self.short), np.array(self.long), self.short_samples, self.long_samples, self.topics)


@dataclass
class _Maps:
    """Java's two data maps between patches, in the order of their keys."""

    brokers: dict[str, tuple[Figures, list[str]]] = field(default_factory=dict)
    bundles: dict[str, _BundleRow] = field(default_factory=dict)

    def advance(self, round_: _Round) -> None:
        if not round_.patch:
            self.brokers, self.bundles = {}, {}
        _patch(self.brokers, round_.brokers, lambda broker: (broker.figures(), broker.bundles))
        _patch(self.bundles, round_.bundle_data, _row)

    def view(self, round_: _Round) -> ClusterView:
        names, rows = list(self.bundles), dict(self.bundles)
        brokers = tuple(BrokerLoad(broker, figures, partial(_table, owned, rows)) for broker, (figures, owned) in self.brokers.items())
        return ClusterView("vectors", 0, brokers, frozenset(round_.recently_unloaded), lambda: names)


#: What a strategy is compared by besides its unloads: the round's answer and the bundles that were in its data.
State = Callable[[Shedding, Mapping[str, _BundleRow]], dict[str, Any]]


@dataclass(frozen=True)
class SheddingSuite:
    """Replays a case through one strategy of the registry."""

    strategy: str
    state: State

    def replay(self, case: Case) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Per round: what Java answered, what we answer. Raises SettingsError for a case of another form."""
        rounds, expected = case.read(_Rounds).rounds, case.read(_Answered).expect.rounds
        if len(rounds) != len(expected):
            raise SettingsError([f"{case.where}: {len(rounds)} rounds but {len(expected)} answers"])
        entry, conf = SHEDDERS[self.strategy], case.envelope.conf
        shedder = entry.build(settings_of(entry.settings, conf), weights_of(conf), "parity")
        maps, memory = _Maps(), Memory()
        for round_, answer in zip(rounds, expected, strict=True):
            maps.advance(round_)
            if round_.active_brokers is not None:
                memory = shedder.retain(memory, round_.active_brokers)
            shedding = shedder.shed(maps.view(round_), memory)
            memory = shedding.memory
            yield answer, {"unloads": _unloads(shedding.decisions), **self.state(shedding, maps.bundles)}


def averages(shedding: Shedding, _: Mapping[str, _BundleRow]) -> dict[str, Any]:
    """ThresholdShedder's history."""
    return {"ema": {broker: kept.ewma for broker, kept in shedding.memory.brokers.items() if kept.ewma is not None}}


def hits_and_plan(shedding: Shedding, bundles: Mapping[str, _BundleRow]) -> dict[str, Any]:
    """AvgShedder's counters and plan; where it sent the bundles, by name and as its plan answers afterwards."""
    brokers, planned = shedding.memory.brokers, shedding.memory.cluster.planned
    state: dict[str, Any] = {
        "hitHigh": {broker: kept.hit_high for broker, kept in brokers.items() if kept.hit_high is not None},
        "hitLow": {broker: kept.hit_low for broker, kept in brokers.items() if kept.hit_low is not None},
        "plan": {name: planned[row.key] for name, row in bundles.items() if row.key in planned} if planned else {},
    }
    if shedding.decisions:
        state["targets"] = {decision.bundle: decision.evidence["paired_with"] for decision in shedding.decisions}
        state["destinations"] = {decision.bundle: decision.destination for decision in shedding.decisions}
    return state


def _unloads(decisions: tuple[Decision, ...]) -> list[tuple[str, list[str]]]:
    unloads: dict[str, list[str]] = {}
    for decision in decisions:
        unloads.setdefault(decision.source, []).append(decision.bundle)
    return list(unloads.items())


def _patch(kept: dict[str, Any], patch: Mapping[str, Any], read: Callable[[Any], Any]) -> None:
    """Null removes; a known key keeps its place; a new one goes to the end."""
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = read(value)


def _row(bundle: _Bundle) -> _BundleRow:
    short, long = bundle.short_term, bundle.long_term or bundle.short_term
    short_samples = 10 if short.num_samples is None else short.num_samples
    given = None if bundle.long_term is None else bundle.long_term.num_samples
    return _BundleRow(short.columns(), long.columns(), short_samples, 1000 if given is None else given, bundle.topics)


def _table(owned: list[str], bundles: Mapping[str, _BundleRow]) -> BundleLoads:
    """The averages of a broker's bundles; a bundle without averages has no row."""
    names = tuple(name for name in dict.fromkeys(owned) if name in bundles)
    rows = [bundles[name] for name in names]
    short = np.array([row.short for row in rows], dtype=np.float64).reshape(-1, 4)
    return BundleLoads(
        names,
        short,
        np.array([row.long for row in rows], dtype=np.float64).reshape(-1, 4),
        np.array([row.short_samples for row in rows], dtype=np.int64),
        np.array([row.long_samples for row in rows], dtype=np.int64),
        np.array([row.topics for row in rows], dtype=np.int64),
        np.zeros(len(rows), dtype=np.int64),
        short,
    )

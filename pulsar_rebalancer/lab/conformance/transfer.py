"""The `topk` suite: which bundles a broker of the extensible load manager reports, in which order;
and the `transfer` suite: histories of its stores, round after round, through TransferShedder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from pulsar_rebalancer.lab.conformance.averaging import StatsData, stats_columns
from pulsar_rebalancer.lab.conformance.case_data import patched, settings_of
from pulsar_rebalancer.lab.conformance.vectors import Case, Number, Played
from strategies.cluster.model import BundleStats
from strategies.filters.policies import PoliciesView, isolation_policy
from strategies.shedding.transfer.exchange_loop import (
    BrokerEntry,
    OfferedBundle,
    Stores,
    TransferVerdict,
)
from strategies.shedding.transfer.parity import judge_as_java
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles


class _TopRound(msgspec.Struct, frozen=True, rename="camel"):
    bundle_stats: dict[str, StatsData] = {}
    topk: int | None = None


class _TopCase(msgspec.Struct, frozen=True, rename="camel"):
    isolation_policies: dict[str, Any] | None = None
    anti_affinity_groups: dict[str, str] | None = None


def top_bundles(case: Case) -> Played:
    """Asks for the report of every round. Raises SettingsError for a case of another form."""
    given = case.read(_TopCase)
    settings = settings_of(TopSettings, case.envelope.conf)
    policies = PoliciesView(
        tuple(
            isolation_policy(name, tree) for name, tree in (given.isolation_policies or {}).items()
        ),
        given.anti_affinity_groups or {},
    )
    for round_, answer in case.answered(_TopRound):
        yield answer, _report(round_, policies, settings)


def _report(round_: _TopRound, policies: PoliciesView, settings: TopSettings) -> dict[str, Any]:
    rows = tuple(round_.bundle_stats.values())
    traffic, clients, cache = stats_columns(rows)
    topics = np.array([row.topics for row in rows], dtype=np.int64)
    stats = BundleStats(tuple(round_.bundle_stats), traffic, topics, clients - topics)
    if round_.topk is not None:
        settings = replace(settings, most=round_.topk)
    found = java_top_bundles(stats, policies, settings, cache)
    return (
        {"error": found.java}
        if isinstance(found, TopFault)
        else {"top": [stats.names[row] for row in found]}
    )


#: All ages are relative to this time.
_NOW_MS = 1_000_000_000_000


class _Entry(msgspec.Struct, frozen=True):
    usage: Number = msgspec.field(default=0.0, name="weightedMaxEMA")
    average: Number = msgspec.field(default=0.0, name="msgThroughputEMA")
    throughput_in: Number = msgspec.field(default=0.0, name="msgThroughputIn")
    throughput_out: Number = msgspec.field(default=0.0, name="msgThroughputOut")
    age_ms: int = msgspec.field(default=0, name="ageMs")

    def read(self) -> BrokerEntry:
        throughput = float(self.throughput_in) + float(self.throughput_out)
        return BrokerEntry(
            float(self.usage), float(self.average), throughput, _NOW_MS - self.age_ms
        )


class _Top(msgspec.Struct, frozen=True, rename="camel"):
    bundle: str
    msg_throughput_in: Number = 0.0
    msg_throughput_out: Number = 0.0

    def read(self) -> OfferedBundle:
        return OfferedBundle(
            self.bundle, float(self.msg_throughput_in) + float(self.msg_throughput_out)
        )


class _StoresRound(msgspec.Struct, frozen=True, rename="camel"):
    brokers: dict[str, _Entry | None] = {}
    top_bundles: dict[str, list[_Top] | None] = {}
    available: list[str] | None = None
    recently_unloaded_bundles: dict[str, Number] = {}
    recently_unloaded_brokers: dict[str, int] = {}
    patch: bool = False


@dataclass
class _Kept:
    """Both stores between patches."""

    brokers: dict[str, BrokerEntry] = field(default_factory=dict)
    top: dict[str, list[OfferedBundle]] = field(default_factory=dict)

    def advance(self, round_: _StoresRound) -> Stores:
        self.brokers = patched(
            self.brokers, round_.brokers, lambda entry: entry.read(), is_patch=round_.patch
        )
        self.top = patched(
            self.top,
            round_.top_bundles,
            lambda bundles: [bundle.read() for bundle in bundles],
            is_patch=round_.patch,
        )
        available = frozenset(self.brokers if round_.available is None else round_.available)
        unloaded_at_ms = {
            broker: _NOW_MS - ago for broker, ago in round_.recently_unloaded_brokers.items()
        }
        cooling = frozenset(round_.recently_unloaded_bundles)
        return Stores(
            _NOW_MS, dict(self.brokers), dict(self.top).get, available, cooling, unloaded_at_ms
        )


def transfers(case: Case) -> Played:
    """Replays a case through TransferShedder in parity mode. Raises SettingsError for a case of
    another form.
    """
    settings, kept = _settings(case.envelope.conf), _Kept()
    hits, published = 0, (0.0, 0.0)
    for round_, answer in case.answered(_StoresRound):
        stores = kept.advance(round_)
        verdict = judge_as_java(stores, settings, hits)
        hits, published = verdict.hits, verdict.published or published
        yield answer, _answer(verdict, published, stores)


def _settings(conf: Mapping[str, Any]) -> TransferSettings:
    """Removes namespaces before the shedder runs; in Java the class does this itself, so the field
    of the rule is not a setting here.
    """
    excluded = settings_of(TopSettings, conf).excluded_namespaces
    return replace(settings_of(TransferSettings, conf), excluded_namespaces=excluded)


def _answer(
    verdict: TransferVerdict, published: tuple[float, float], stores: Stores
) -> dict[str, Any]:
    moves = [
        [move.source, move.bundle, move.destination, "Success", move.reason]
        for move in verdict.moves
    ]
    return {
        "decisions": sorted(moves, key=lambda move: [text or "" for text in move]),
        "counted": [f"Skip/{verdict.skipped}"] if verdict.skipped else [],
        "hitCount": verdict.hits,
        "avg": verdict.statistics.average,
        "std": verdict.statistics.std,
        "loadAvg": published[0],
        "loadStd": published[1],
        "recentlyUnloadedBrokers": sorted(set(stores.unloaded_at_ms) - verdict.over),
    }

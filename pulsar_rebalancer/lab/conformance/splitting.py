"""The `splits` suite: the hashes of topics, where the algorithms cut, and which bundles the two
load managers split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from pulsar_rebalancer.lab.conformance.averaging import StatsData
from pulsar_rebalancer.lab.conformance.case_data import (
    BundleData,
    TrafficData,
    averages_columns,
    averages_of,
    settings_of,
)
from pulsar_rebalancer.lab.conformance.split_algorithms import (
    SplitFault,
    SplitRequest,
    TopicFlow,
    applied,
    bundle_of,
    cuts,
    topics_inside,
)
from pulsar_rebalancer.lab.conformance.vectors import Case, Number, Played
from pulsar_rebalancer.lab.simulation.demand import initial_boundaries
from strategies.bundles import (
    BundleLoads,
    KeyRange,
    hexadecimal,
    parse_bundle,
    topic_hash,
)
from strategies.cluster.model import BrokerLoad, BundleStats, Decision, Figures, Traffic
from strategies.errors import SettingsError
from strategies.splitting.bundle_limits import Algorithm, SplitSettings
from strategies.splitting.when_extensible import BrokerContext, java_extensible_splits
from strategies.splitting.when_modular import java_modular_splits


class _Query(msgspec.Struct, frozen=True, rename="camel"):
    algorithm: Algorithm
    bundle: str
    boundaries: list[str]
    topics: list[str] | None = None
    topic_stats: dict[str, TrafficData] = {}
    positions: list[int] = []
    force: bool = False
    conf: dict[str, Number | bool] = {}
    default_algorithm: str | None = None


class _Topic(msgspec.Struct, frozen=True):
    topic: str
    boundaries: list[str]


class _Hashing(msgspec.Struct, frozen=True, rename="camel"):
    num_bundles: list[int]
    topics: list[_Topic]


def hashing(case: Case) -> Played:
    """Initial boundaries, and the hash and bundle of topics. Raises SettingsError for a case of
    another form.
    """
    given = case.read(_Hashing)
    initial = [
        [hexadecimal(boundary) for boundary in initial_boundaries(bundles)]
        for bundles in given.num_bundles
    ]
    yield (
        case.envelope.expect,
        {"initial": initial, "topics": [_place(topic) for topic in given.topics]},
    )


def algorithms(case: Case) -> Played:
    """Where bundles are cut, and the resulting bundles of the namespace. Raises SettingsError for a
    case of another form.
    """
    for query, answer in case.answered(_Query, "queries"):
        yield answer, _answer(query, case)


def flows_of(stats: Mapping[str, TrafficData]) -> dict[str, TopicFlow]:
    """Traffic of topics, in and out together."""
    traffic = {topic: Traffic(*row.columns()) for topic, row in stats.items()}
    return {topic: TopicFlow(row.msg_rate, row.msg_throughput) for topic, row in traffic.items()}


def range_of(bundle: str, where: str) -> tuple[str, KeyRange]:
    """Namespace and range of a bundle. Raises SettingsError for another name."""
    found = parse_bundle(bundle)
    if found is None:
        raise SettingsError([f"{where}: {bundle!r} is not the name of a bundle"])
    return found


def _place(query: _Topic) -> dict[str, Any]:
    hash_ = topic_hash(query.topic)
    found = bundle_of(hash_, _numbers(query.boundaries))
    # tenant and namespace are the two parts after the domain.
    namespace = "/".join(query.topic.split("://")[-1].split("/")[:2])
    return {"hash": hash_, "bundle": None if found is None else f"{namespace}/{found}"}


def _answer(query: _Query, case: Case) -> dict[str, Any]:
    namespace, bundle = range_of(query.bundle, case.where)
    request = SplitRequest(
        bundle,
        query.topics,
        flows_of(query.topic_stats),
        query.positions,
        query.force,
        settings_of(SplitSettings, query.conf),
        query.default_algorithm,
        case.release,
    )
    found = cuts(query.algorithm, request)
    if isinstance(found, SplitFault):
        return {"canSplit": bundle.can_split, "error": found.java}
    answer: dict[str, Any] = {
        "canSplit": bundle.can_split,
        "boundaries": None if found is None else list(found),
    }
    return (
        {**answer, **_outcome(namespace, bundle, _numbers(query.boundaries), found)}
        if found
        else answer
    )


def _outcome(
    namespace: str, bundle: KeyRange, boundaries: Sequence[int], found: Sequence[int]
) -> dict[str, Any]:
    after = applied(boundaries, bundle, found)
    if isinstance(after, SplitFault):
        return {"splitError": after.java}
    if after is None:
        return {"newBoundaries": None}
    return {
        "newBoundaries": [hexadecimal(boundary) for boundary in after],
        "children": [f"{namespace}/{part}" for part in bundle.parts(found)],
    }


def _numbers(boundaries: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(boundary, 16) for boundary in boundaries)


_ALGORITHM = "defaultNamespaceBundleSplitAlgorithm"


class _OwnedBundles(msgspec.Struct, frozen=True, rename="camel"):
    last_stats: dict[str, StatsData] = {}


class _ModularRound(msgspec.Struct, frozen=True, rename="camel"):
    brokers: dict[str, _OwnedBundles] = {}
    bundle_data: dict[str, BundleData] = {}
    bundle_counts: dict[str, int] = {}


class _OwnRound(msgspec.Struct, frozen=True, rename="camel"):
    bundle_stats: dict[str, StatsData] = {}
    bundle_counts: dict[str, int] = {}
    not_owned: list[str] = []
    splitting: list[str] = []
    topics: list[str] = []
    topic_stats: dict[str, TrafficData] = {}


class _Named(msgspec.Struct, frozen=True):
    algorithm: Algorithm = msgspec.field(default="range_equally_divide", name=_ALGORITHM)


class _Conf(msgspec.Struct, frozen=True):
    conf: _Named = _Named()


def modular_splits(case: Case) -> Played:
    """The task that the leader of the modular load manager runs. Raises SettingsError for a case of
    another form.
    """
    settings = _settings(case)
    for round_, answer in case.answered(_ModularRound):
        brokers = [
            BrokerLoad(name, Figures(), partial(_table, round_, owned))
            for name, owned in round_.brokers.items()
        ]
        found = java_modular_splits(
            brokers, partial(_count, round_.bundle_counts), settings
        ).decisions
        yield (
            {"splits": sorted(answer["splits"])},
            {"splits": sorted([decision.bundle, decision.source] for decision in found)},
        )


def own_splits(case: Case) -> Played:
    """The strategy by which a broker of the extensible load manager splits its own bundles. Raises
    SettingsError for a case of another form.
    """
    settings, hits = _settings(case), dict[str, int]()
    for round_, answer in case.answered(_OwnRound):
        context = BrokerContext(
            "",
            partial(_count, round_.bundle_counts),
            partial(_cut, round_, settings, case.where),
            partial(_owns, frozenset(round_.not_owned)),
            round_.splitting,
        )
        found = java_extensible_splits(_stats(round_.bundle_stats), hits, context, settings)
        hits = dict(found.hits)
        yield (
            answer,
            {
                "decisions": sorted(
                    (_decision(decision, case.where) for decision in found.decisions),
                    key=lambda row: row[0],
                ),
                "counted": ["Failure/Unknown"] * len(found.failed),
                "hitCounts": hits,
            },
        )


_LABELS = {
    "topics": "Topics",
    "sessions": "Sessions",
    "msg-rate": "MsgRate",
    "bandwidth": "Bandwidth",
}


def _decision(decision: Decision, where: str) -> list[Any]:
    _, range_ = range_of(decision.bundle, where)
    parts = range_.parts((int(str(decision.evidence["boundary"]), 16),))
    return [decision.bundle, [str(part) for part in parts], "Success", _LABELS[decision.code]]


def _settings(case: Case) -> SplitSettings:
    conf = {key: value for key, value in case.envelope.conf.items() if key != _ALGORITHM}
    return replace(settings_of(SplitSettings, conf), algorithm=case.read(_Conf).conf.algorithm)


def _count(counts: Mapping[str, int], namespace: str) -> int:
    return counts.get(namespace, 1)


def _owns(elsewhere: frozenset[str], bundle: str) -> bool:
    return bundle not in elsewhere


def _cut(round_: _OwnRound, settings: SplitSettings, where: str, bundle: str) -> Sequence[int]:
    _, range_ = range_of(bundle, where)
    inside = topics_inside(round_.topics, range_)
    request = SplitRequest(
        range_,
        inside,
        flows_of(round_.topic_stats),
        settings=settings,
        default_algorithm=settings.algorithm,
    )
    found = cuts(settings.algorithm, request)
    return () if found is None or isinstance(found, SplitFault) else found


def _stats(stats: Mapping[str, StatsData]) -> BundleStats:
    rows = list(stats.values())
    return BundleStats(
        tuple(stats),
        np.array([row.columns() for row in rows], dtype=np.float64).reshape(-1, 4),
        np.array([row.topics for row in rows], dtype=np.int64),
        np.array([row.consumer_count + row.producer_count for row in rows], dtype=np.int64),
    )


def _table(round_: _ModularRound, owned: _OwnedBundles) -> BundleLoads:
    """A broker's bundles; one without averages has zeros."""
    stats = _stats(owned.last_stats)
    unknown = BundleData()
    short, long, counts, _ = averages_columns(
        [averages_of(round_.bundle_data.get(name, unknown)) for name in stats.names]
    )
    return BundleLoads(
        stats.names, short, long, *counts, stats.topics, stats.sessions, stats.traffic
    )

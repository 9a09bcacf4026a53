"""The `splits` suite, first half: the hashes of topics, and where the algorithms cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rebalancer.conformance.broker_conf import settings_of
from rebalancer.conformance.data_maps import TrafficData
from rebalancer.conformance.vectors import Case, Number, Played
from strategies.bundles.ranges import (
    KeyRange,
    bundle_of,
    hexadecimal,
    initial_boundaries,
    parse_bundle,
    topic_hash,
)
from strategies.errors import SettingsError
from strategies.model import Traffic
from strategies.splitting.boundaries import (
    Algorithm,
    SplitFault,
    SplitRequest,
    TopicFlow,
    applied,
    cuts,
)
from strategies.splitting.limits import SplitSettings


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
        yield answer, _answer(query, case.where)


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
    found = bundle_of(hash_, _numbers(query.boundaries), "parity")
    # tenant and namespace are the two parts after the domain.
    namespace = "/".join(query.topic.split("://")[-1].split("/")[:2])
    return {"hash": hash_, "bundle": None if found is None else f"{namespace}/{found}"}


def _answer(query: _Query, where: str) -> dict[str, Any]:
    namespace, bundle = range_of(query.bundle, where)
    request = SplitRequest(
        bundle,
        query.topics,
        flows_of(query.topic_stats),
        query.positions,
        query.force,
        settings_of(SplitSettings, query.conf).flow,
        query.default_algorithm,
    )
    found = cuts(query.algorithm, request, "parity")
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

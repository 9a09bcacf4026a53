"""Computes where a bundle is cut: the four algorithms that Pulsar knows by name.

Source of the rules: `RangeEquallyDivideBundleSplitAlgorithm`,
`TopicCountEquallyDivideBundleSplitAlgorithm`, `SpecifiedPositionsBundleSplitAlgorithm` and
`FlowOrQpsEquallyDivideBundleSplitAlgorithm` of Pulsar 4.2.4. In parity mode a boundary may be
outside the bundle, and Pulsar then refuses it (`applied`); in fixed mode boundaries are strictly
ascending and inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from strategies.bundles.ranges import KeyRange, divided, topic_hash, topics_inside
from strategies.cluster.model import MIB
from strategies.java.release_defaults import RELEASES, PulsarRelease
from strategies.settings import Mode

Algorithm = Literal[
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
]


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """Limits of a part for flow_or_qps_equally_divide, and how far above them a bundle must be to
    be cut: messages/s, MiB/s in and out, and percent.
    """

    max_msg_rate: int = 30_000
    max_bandwidth_mib: int = 100
    difference_percent: int = 10


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """Messages/s and bytes/s of a topic, in and out together."""

    msg_rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class SplitFault:
    """Why there is no result: a stable code, a sentence, and the class of Java's exception."""

    code: Literal[
        "no-positions", "wrong-default-algorithm", "not-divisible", "outside", "empty-part"
    ]
    text: str
    java: str


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """Input of an algorithm. `topics`: those of the bundle, or None; `flows`: topic → its flow, if
    known.

    `default_algorithm`: the one in the cluster's configuration; `force`: use specified positions
    even for fewer than two topics; `release`: whose rule parity mode follows.
    """

    bundle: KeyRange
    topics: Sequence[str] | None = None
    flows: Mapping[str, TopicFlow] = field(default_factory=dict)
    positions: Sequence[int] = ()
    force: bool = False
    flow_settings: FlowSettings = FlowSettings()
    default_algorithm: str | None = None
    release: PulsarRelease = RELEASES[0]

    @property
    def gets_flows(self) -> bool:
        """Whether Pulsar gives the figures of topics to flow_or_qps_equally_divide: up to 4.2 only
        to the configured default algorithm.
        """
        known = (None, "flow_or_qps_equally_divide")
        return self.release != "4.2" or self.default_algorithm in known


#: Boundaries in ascending order; None: no cut.
Cuts = tuple[int, ...] | None


def cuts(algorithm: Algorithm, request: SplitRequest, mode: Mode) -> Cuts | SplitFault:
    """The boundaries at which the algorithm cuts the bundle. An empty result means the same as
    None; Java distinguishes them.

    Parity mode uses the list of topics as it is; fixed mode uses each topic of the bundle once, in
    the order of names.
    """
    if mode == "parity":
        return _ALGORITHMS[algorithm](request, mode)
    if request.topics is not None:
        request = replace(
            request, topics=sorted(set(topics_inside(request.topics, request.bundle)))
        )
    found = _ALGORITHMS[algorithm](request, mode)
    if isinstance(found, SplitFault) or found is None:
        return found
    return tuple(sorted({cut for cut in found if request.bundle.inside(cut)})) or None


def applied(
    namespace: Sequence[int], bundle: KeyRange, boundaries: Sequence[int]
) -> tuple[int, ...] | SplitFault | None:
    """The namespace's boundaries after the cut; None when it has no such bundle, a fault where
    Pulsar refuses it.
    """
    if not bundle.can_split:
        return SplitFault(
            "not-divisible", f"{bundle} holds one hash only", "java.lang.IllegalArgumentException"
        )
    if outside := [boundary for boundary in boundaries if not bundle.inside(boundary)]:
        return SplitFault(
            "outside",
            f"{outside[0]:#010x} is not strictly inside {bundle}",
            "java.lang.IllegalArgumentException",
        )
    after = divided(namespace, bundle, boundaries)
    if after is not None and len(set(boundaries)) < len(boundaries):
        return SplitFault(
            "empty-part",
            f"a boundary of {bundle} is named twice",
            "java.lang.IllegalArgumentException",
        )
    return after


def _in_the_middle(request: SplitRequest, _: Mode) -> Cuts:
    lower, upper = request.bundle.lower, request.bundle.upper
    return (lower + (upper - lower) // 2,)


def _by_topics(request: SplitRequest, mode: Mode) -> Cuts:
    """Cuts between the topics. For adjacent hashes, Java's boundary is one too low: both topics go
    to the right; fixed mode rounds up.
    """
    if _too_few(request.topics):
        return None
    left, right = _middle_hashes(request)
    return (left + (right - left + (1 if mode == "fixed" else 0)) // 2,)


def _middle_hashes(request: SplitRequest) -> tuple[int, int]:
    hashes = sorted(map(topic_hash, request.topics or ()))
    middle = len(hashes) // 2
    return hashes[max(middle - 1, 0)], hashes[middle]


def _at_positions(request: SplitRequest, _: Mode) -> Cuts | SplitFault:
    if not request.positions:
        return SplitFault(
            "no-positions", "no positions were named", "java.lang.IllegalArgumentException"
        )
    if not request.force and _too_few(request.topics):
        return None
    return (
        tuple(position for position in sorted(request.positions) if request.bundle.inside(position))
        or None
    )


def _by_flow(request: SplitRequest, mode: Mode) -> Cuts | SplitFault:
    if mode == "parity" and not request.gets_flows:
        text = "only the configured default algorithm gets the figures of topics"
        return SplitFault("wrong-default-algorithm", text, "java.lang.ClassCastException")
    if _too_few(request.topics):
        return None
    flows = _known_flows(request)
    # For two topics of one hash, Java lists the hash twice, each time with the figures of the later
    # topic.
    by_hash = dict(flows) if mode == "parity" else _merged(flows)
    if len(by_hash) < 2 or not _worth_it(flows, request.flow_settings):
        return None
    return _filled(
        [hash_ for hash_, _ in flows] if mode == "parity" else by_hash,
        by_hash,
        request.flow_settings,
    )


def _known_flows(request: SplitRequest) -> list[tuple[int, TopicFlow]]:
    known = ((topic, request.flows.get(topic)) for topic in request.topics or ())
    return [
        (topic_hash(topic), flow)
        for topic, flow in known
        if flow is not None and not (flow.msg_rate <= 0 and flow.throughput <= 0)
    ]


def _filled(hashes: Iterable[int], flows: Mapping[int, TopicFlow], settings: FlowSettings) -> Cuts:
    """Fills parts from the left; a topic that would exceed a limit begins the next part."""
    ascending, found = sorted(hashes), []
    part = flows[ascending[0]]
    for before, hash_ in pairwise(ascending):
        flow = flows[hash_]
        grown = TopicFlow(part.msg_rate + flow.msg_rate, part.throughput + flow.throughput)
        if (
            grown.msg_rate > settings.max_msg_rate
            or grown.throughput > settings.max_bandwidth_mib * MIB
        ):
            found.append(before + (hash_ - before) // 2 + 1)
            grown = flow
        part = grown
    return tuple(found)


def _merged(flows: list[tuple[int, TopicFlow]]) -> dict[int, TopicFlow]:
    together: dict[int, TopicFlow] = {}
    for hash_, flow in flows:
        before = together.get(hash_, TopicFlow(0.0, 0.0))
        together[hash_] = TopicFlow(
            before.msg_rate + flow.msg_rate, before.throughput + flow.throughput
        )
    return together


def _worth_it(flows: list[tuple[int, TopicFlow]], settings: FlowSettings) -> bool:
    """Whether the bundle is far enough above one of the limits; summed in the order of the
    topics.
    """
    rate = throughput = 0.0
    for _, flow in flows:
        rate += flow.msg_rate
        throughput += flow.throughput
    factor = 1 + settings.difference_percent / 100.0
    return not (
        rate < settings.max_msg_rate * factor
        and throughput < settings.max_bandwidth_mib * MIB * factor
    )


def _too_few(topics: Sequence[str] | None) -> bool:
    return topics is None or len(topics) <= 1


_ALGORITHMS: Mapping[Algorithm, Callable[[SplitRequest, Mode], Cuts | SplitFault]] = {
    "range_equally_divide": _in_the_middle,
    "topic_count_equally_divide": _by_topics,
    "specified_positions_divide": _at_positions,
    "flow_or_qps_equally_divide": _by_flow,
}

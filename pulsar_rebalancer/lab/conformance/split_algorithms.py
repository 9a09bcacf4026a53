"""Computes where Pulsar cuts a bundle, by the four algorithms that it knows by name. Brokers run
them: this project only names one in its commands.

Source of the rules: `RangeEquallyDivideBundleSplitAlgorithm`,
`TopicCountEquallyDivideBundleSplitAlgorithm`, `SpecifiedPositionsBundleSplitAlgorithm` and
`FlowOrQpsEquallyDivideBundleSplitAlgorithm` of Pulsar 4.2.4. A boundary may be outside the bundle,
and Pulsar then refuses it (`applied`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from strategies.bundles import KeyRange, topic_hash
from strategies.cluster.model import MIB
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease
from strategies.ordered_sum import ordered_sum
from strategies.splitting.bundle_limits import Algorithm, SplitSettings

_ILLEGAL = "java.lang.IllegalArgumentException"


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """Messages/s and bytes/s of a topic, in and out together."""

    msg_rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class SplitFault:
    """The class of Java's exception in place of a result."""

    java: str


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """Input of an algorithm. `topics`: those of the bundle, or None; `flows`: topic → its flow, if
    known; `settings`: the limits of a part, and how far above them a bundle must be to be cut.

    `default_algorithm`: the one in the cluster's configuration; `force`: use specified positions
    even for fewer than two topics; `release`: the one whose rule applies.
    """

    bundle: KeyRange
    topics: Sequence[str] | None = None
    flows: Mapping[str, TopicFlow] = field(default_factory=dict)
    positions: Sequence[int] = ()
    force: bool = False
    settings: SplitSettings = SplitSettings()
    default_algorithm: str | None = None
    release: PulsarRelease = RELEASES[0]


#: Boundaries in ascending order. Java distinguishes none from an empty list.
Cuts = tuple[int, ...] | None


def cuts(algorithm: Algorithm, request: SplitRequest) -> Cuts | SplitFault:
    """The boundaries at which the algorithm cuts the bundle."""
    return _ALGORITHMS[algorithm](request)


def applied(
    namespace: Sequence[int], bundle: KeyRange, boundaries: Sequence[int]
) -> tuple[int, ...] | SplitFault | None:
    """The namespace's boundaries after the cut; None when it has no such bundle, a fault where
    Pulsar refuses it.
    """
    if not bundle.can_split or not all(map(bundle.inside, boundaries)):
        return SplitFault(_ILLEGAL)
    for index, edges in enumerate(pairwise(namespace)):
        if edges == (bundle.lower, bundle.upper):
            if len(set(boundaries)) < len(boundaries):
                return SplitFault(_ILLEGAL)
            return (*namespace[: index + 1], *boundaries, *namespace[index + 1 :])
    return None


def bundle_of(hash_: int, boundaries: Sequence[int]) -> KeyRange | None:
    """The bundle that holds a hash. For the largest hash, Java looks behind the last bundle and
    fails: None.
    """
    index = bisect_right(boundaries, hash_) - 1
    if 0 <= index < len(boundaries) - 1:
        return KeyRange(boundaries[index], boundaries[index + 1])
    return None


def topics_inside(topics: Iterable[str], range_: KeyRange) -> tuple[str, ...]:
    """The topics whose hash is in the range, in the given order."""
    return tuple(topic for topic in topics if topic_hash(topic) in range_)


def _in_the_middle(request: SplitRequest) -> Cuts:
    return (request.bundle.middle,)


def _by_topics(request: SplitRequest) -> Cuts:
    """Cuts between the topics. For adjacent hashes, Java's boundary is one too low: both topics go
    to the right.
    """
    if _too_few(request.topics):
        return None
    hashes = sorted(map(topic_hash, request.topics or ()))
    middle = len(hashes) // 2
    return ((hashes[middle - 1] + hashes[middle]) // 2,)


def _at_positions(request: SplitRequest) -> Cuts | SplitFault:
    if not request.positions:
        return SplitFault(_ILLEGAL)
    if not request.force and _too_few(request.topics):
        return None
    return tuple(filter(request.bundle.inside, sorted(request.positions))) or None


def _by_flow(request: SplitRequest) -> Cuts | SplitFault:
    """Up to Pulsar 4.2, only the configured default algorithm gets the figures of topics."""
    known = (None, "flow_or_qps_equally_divide")
    if request.release == "4.2" and request.default_algorithm not in known:
        return SplitFault("java.lang.ClassCastException")
    if _too_few(request.topics):
        return None
    flows = [
        (topic_hash(topic), flow)
        for topic in request.topics or ()
        if (flow := request.flows.get(topic)) is not None
        and not (flow.msg_rate <= 0 and flow.throughput <= 0)
    ]
    # For two topics of one hash, Java lists the hash twice, each time with the figures of the later
    # topic.
    by_hash = dict(flows)
    if len(by_hash) < 2 or not _worth_it(flows, request.settings):
        return None
    return _filled(sorted(hash_ for hash_, _ in flows), by_hash, request.settings)


def _filled(
    hashes: Sequence[int], flows: Mapping[int, TopicFlow], settings: SplitSettings
) -> tuple[int, ...]:
    """Fills parts from the left; a topic that would exceed a limit begins the next part."""
    part, found = flows[hashes[0]], []
    for before, hash_ in pairwise(hashes):
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


def _worth_it(flows: Sequence[tuple[int, TopicFlow]], settings: SplitSettings) -> bool:
    """Whether the bundle is far enough above one of the limits; summed in the order of the
    topics.
    """
    rate = ordered_sum(flow.msg_rate for _, flow in flows)
    throughput = ordered_sum(flow.throughput for _, flow in flows)
    factor = 1 + settings.difference_percent / 100.0
    return not (
        rate < settings.max_msg_rate * factor
        and throughput < settings.max_bandwidth_mib * MIB * factor
    )


def _too_few(topics: Sequence[str] | None) -> bool:
    return topics is None or len(topics) <= 1


_ALGORITHMS: Mapping[Algorithm, Callable[[SplitRequest], Cuts | SplitFault]] = {
    "range_equally_divide": _in_the_middle,
    "topic_count_equally_divide": _by_topics,
    "specified_positions_divide": _at_positions,
    "flow_or_qps_equally_divide": _by_flow,
}

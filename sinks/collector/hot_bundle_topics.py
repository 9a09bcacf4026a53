"""Reads the topics of one hot bundle at a time, for rounds that split it or say what else helps.

The collector decides which one by the reports of the pass. So the topics are there before the sweep
that closes the round, and no round waits for an answer.

Pulsar has a call for the topics of one bundle. It can freeze a broker (docs/PULSAR_FAULTS.md). The
figures of what a broker has loaded come from its memory: the call reads no metadata.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import fsum

import msgspec

from sinks.collector.broker_poll import Report
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.wire.contracts.telemetry import BundleTopicsReport, NamespaceBundleStats, TopBundle
from strategies.bundles import namespace_of, parse_bundle, topic_hash
from strategies.cluster.topics_of_bundle import MOST_TOPICS
from strategies.errors import AdminError

_MB, _HOUR_MS = 1_000_000, 3_600_000
#: Bytes that a message counts at least: small messages make a bundle hot by their number.
_LEAST_BYTES = 1_000


class _ReportedBundles(msgspec.Struct):
    """The bundles in a report of either load manager."""

    lastStats: dict[str, NamespaceBundleStats] = {}
    topBundlesLoadData: list[TopBundle] = []


class _TopicFigures(msgspec.Struct):
    msgRateIn: float = 0.0
    msgRateOut: float = 0.0
    msgThroughputIn: float = 0.0
    msgThroughputOut: float = 0.0


@dataclass
class HotBundleTopics:
    """`admin`: must not retry by itself; `hot_mb`: traffic (MB/s) from which on a bundle is hot;
    0 = no topics are read; `repeat_ms`: time until the same bundle is read again.
    """

    admin: PulsarAdmin
    hot_mb: float
    repeat_ms: int
    clock_ms: Callable[[], int]
    #: Bundle → when it was last read, successfully or not.
    _read_ms: dict[str, int] = field(default_factory=dict)

    def run(self, reports: Sequence[Report]) -> tuple[Report, ...]:
        """The topics of one hot bundle, as JSON: of the one read longest ago, or of the hottest.
        Empty if none is due, or its broker does not answer.
        """
        if self.hot_mb == 0:
            return ()
        now_ms = self.clock_ms()
        due = [
            (self._read_ms.get(bundle, 0), -load, bundle, report.broker)
            for report in reports
            for bundle, load in _loads(report).items()
            if load > self.hot_mb * _MB
            and not 0 <= now_ms - self._read_ms.get(bundle, 0) < self.repeat_ms
        ]
        if not due:
            return ()
        _, _, bundle, broker = min(due)
        self._read_ms = {one: ts for one, ts in self._read_ms.items() if now_ms - ts < _HOUR_MS}
        self._read_ms[bundle] = now_ms
        with suppress(AdminError):
            found = read_topics(self.admin, bundle, broker)
            if found.topics:
                return (Report(broker, self.clock_ms(), msgspec.json.encode(found)),)
        return ()


def _loads(report: Report) -> dict[str, float]:
    """Bundle → traffic in bytes/s."""
    try:
        found = msgspec.json.decode(report.body, type=_ReportedBundles | None) or _ReportedBundles()
    except (msgspec.MsgspecError, RecursionError):
        return {}
    stats = {**found.lastStats, **{one.bundleName: one.stats for one in found.topBundlesLoadData}}
    return {
        bundle: max(
            one.msgThroughputIn + one.msgThroughputOut,
            _LEAST_BYTES * (one.msgRateIn + one.msgRateOut),
        )
        for bundle, one in stats.items()
    }


def read_topics(admin: PulsarAdmin, bundle: str, broker: str) -> BundleTopicsReport:
    """The topics that this broker has loaded of a bundle; without any if it does not own it. What
    is known of the largest one besides is read with three more calls. Raises AdminError.
    """
    namespace, _, range_ = bundle.rpartition("/")
    figures = admin.loaded_topics(broker, dict[str, dict[str, dict[str, dict[str, _TopicFigures]]]])
    kinds = figures.get(namespace, {}).get(range_, {})
    topics = sorted(
        (
            (name, one.msgRateIn + one.msgRateOut, one.msgThroughputIn + one.msgThroughputOut)
            for topics in kinds.values()
            for name, one in topics.items()
        ),
        key=lambda topic: (-topic[2], topic[0]),
    )
    named, others = topics[:MOST_TOPICS], topics[MOST_TOPICS:]
    found = BundleTopicsReport(
        bundle, named, len(others), fsum(one[1] for one in others), fsum(one[2] for one in others)
    )
    return _with_limits(admin, found, named[0][0]) if named else found


def _with_limits(admin: PulsarAdmin, found: BundleTopicsReport, topic: str) -> BundleTopicsReport:
    """Adds partitions and dispatch limits of a topic, as far as brokers answer. Its policies belong
    to the name without a partition, which may be in another bundle. A call for them makes a broker
    own that bundle if none does, so only an owner is asked.
    """
    whole, _, number = topic.rpartition("-partition-")
    topic = whole if whole and number.isdecimal() else topic
    with suppress(AdminError):
        found = msgspec.structs.replace(found, partitions=admin.partitions(topic))
        namespace = namespace_of(found.bundle)
        for bundle in (f"{namespace}/{range_}" for range_ in admin.ranges(namespace)):
            parsed = parse_bundle(bundle)
            if parsed is not None and topic_hash(topic) in parsed[1]:
                owner = admin.owner(bundle)
                limits = msgspec.UNSET if owner is None else admin.dispatch_limits(topic, owner)
                return msgspec.structs.replace(found, dispatch=limits)
    return found

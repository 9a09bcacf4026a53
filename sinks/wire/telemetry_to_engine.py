"""Converts contract objects to the records that the engine folds, and checks what a schema cannot
express.
"""

import hashlib
import json
import struct
from array import array
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np

from sinks.wire.contracts.execution import LONGEST_NAME, OutcomeRecord, or_none
from sinks.wire.contracts.telemetry import (
    BrokerFigures,
    BrokerLoadRecord,
    BundleTopicsReport,
    IntentRecord,
    LoadReportRecord,
    LocalBrokerData,
    NamespaceBundleStats,
    NoteRecord,
    OutcomeReportRecord,
    PoliciesRecord,
    ResourceUsage,
    SweepRecord,
    TopBundlesRecord,
    is_measured_or_not,
)
from sinks.wire.names_and_times import (
    check_broker,
    check_bundles,
    check_cluster,
    check_time,
    first_repeated,
    is_broker,
    is_bundle,
    quoted,
)
from sinks.wire.operator_records import to_intent
from strategies.cluster import model
from strategies.cluster.move_cost import MoveCost
from strategies.cluster.topics_of_bundle import MOST_TOPICS, TopicLoad, TopicsOfBundle
from strategies.errors import WireError

_BROKER = msgspec.json.Decoder(str)
_OWNED = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TOPICS = msgspec.json.Decoder(BundleTopicsReport)
_SIX_FIGURES = struct.Struct(">6d")


def to_record(message: Any, origin: bytes) -> model.TelemetryRecord:
    """Converts a telemetry message to the engine's record. Raises WireError."""
    check_cluster(message.cluster)
    check_time(message.ts)
    return _READERS[type(message)](message, origin)


def _load_report(message: LoadReportRecord, origin: bytes) -> model.LoadReport:
    check_broker(message.broker, "$.broker")
    report = message.report
    names = tuple(report.lastStats)
    check_bundles(names, "$.report.lastStats[{}]")
    bundles = _bundle_stats(names, report.lastStats.values())
    figures = _figures(report, _served(report))
    return model.LoadReport(
        message.cluster,
        message.broker,
        message.ts,
        figures,
        bundles,
        _digest(figures, bundles),
        origin,
        report.startTimestamp,
    )


def _served(report: LocalBrokerData) -> int:
    """Number of bundles that the broker serves. Without `bundles`, the number with figures (Pulsar
    keeps both equal).
    """
    if report.bundles is None:
        return len(report.lastStats)
    # Names are checked before they are collected: invalid names can be short and numerous.
    wrong = (
        name for name in report.bundles if name not in report.lastStats and not is_bundle(name)
    )
    check_bundles(
        [name for name in [min(wrong, default=None)] if name is not None], "$.report.bundles: {}"
    )
    return len(set(report.bundles))


def _broker_load(message: BrokerLoadRecord, origin: bytes) -> model.LoadReport | model.Tombstone:
    check_broker(message.broker, "$.broker")
    if message.report is None:
        return model.Tombstone(message.cluster, message.broker, message.ts, origin)
    said = message.report
    figures = _figures(
        said,
        said.bundleCount,
        _unsigned(said.weightedMaxEMA),
        _unsigned(said.msgThroughputEMA),
        said.updatedAt,
    )
    return model.LoadReport(
        message.cluster, message.broker, message.ts, figures, None, _digest(figures, None), origin
    )


def _top_bundles(message: TopBundlesRecord, origin: bytes) -> model.LoadReport:
    """A withdrawn list becomes an empty list: the broker no longer reports on any bundle."""
    check_broker(message.broker, "$.broker")
    entries = [] if message.report is None else message.report.topBundlesLoadData
    names = tuple(entry.bundleName for entry in entries)
    check_bundles(names, "$.report.topBundlesLoadData: {}")
    if twice := first_repeated(names):
        raise WireError(
            "bundle-listed-twice",
            f"$.report.topBundlesLoadData lists {quoted(twice)} twice; send each bundle once.",
        )
    bundles = _bundle_stats(names, [entry.stats for entry in entries])
    return model.LoadReport(
        message.cluster, message.broker, message.ts, None, bundles, _digest(None, bundles), origin
    )


def _sweep(message: SweepRecord, origin: bytes) -> model.Sweep:
    listed = [*message.brokers, *message.missing]
    for index, broker in enumerate(message.brokers):
        check_broker(broker, f"$.brokers[{index}]")
    for broker in message.missing:
        check_broker(broker, "A key of $.missing")
    if twice := first_repeated(listed):
        raise WireError(
            "broker-listed-twice",
            f"The sweep lists broker {quoted(twice)} twice; list each as answered or as "
            "missing, once.",
        )
    answering = tuple(message.answering or ())
    for index, broker in enumerate(answering):
        if broker not in message.missing:
            raise WireError(
                "broker-not-missing",
                f"$.answering[{index}] is {quoted(broker)}, which $.missing does not contain; "
                "list only brokers without figures.",
            )
    leader = or_none(message.leader)
    if leader is not None:
        check_broker(leader, "$.leader")
    return model.Sweep(
        message.cluster,
        message.ts,
        message.sweep,
        tuple(message.brokers),
        message.missing,
        origin,
        answering,
        leader,
        or_none(message.shedding),
    )


def _policies(message: PoliciesRecord, origin: bytes) -> model.Policies:
    # Keys keep their order: the first isolation policy whose pattern matches governs a namespace.
    snapshot = json.dumps(
        message.report, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return model.Policies(message.cluster, message.ts, snapshot, origin)


def _outcome_report(message: OutcomeReportRecord, origin: bytes) -> model.OutcomeReport:
    if message.report.cluster != message.cluster:
        raise WireError(
            "other-cluster",
            f"$.report.cluster is {quoted(message.report.cluster)} and $.cluster is "
            f"{quoted(message.cluster)}; send an outcome to its own cluster.",
        )
    return model.OutcomeReport(
        message.cluster, message.ts, to_outcome(message.report, "$.report"), origin
    )


def _note(message: NoteRecord, origin: bytes) -> model.Note | model.Owned | TopicsOfBundle:
    """A note for people, in any form; one of the collector's for rounds, if it is one."""
    note, kind = model.Note(message.cluster, message.ts, origin), bytes(message.note)
    if kind not in (b'"owned-bundles"', b'"topics-of-bundle"'):
        return note
    try:
        broker = _BROKER.decode(message.broker)
        if kind != b'"owned-bundles"':
            report = _TOPICS.decode(message.report)
            return topics_of_bundle(message.cluster, broker, message.ts, report, origin) or note
        owned = _OWNED.decode(message.report)
    except ValueError:
        return note
    if not is_broker(broker) or not all(map(is_bundle, owned)):
        return note
    return model.Owned(message.cluster, broker, message.ts, tuple(owned), origin)


def topics_of_bundle(
    cluster: str, broker: str, ts: int, report: BundleTopicsReport, origin: bytes = b""
) -> TopicsOfBundle | None:
    """The loaded topics of a bundle; None if the report is none of the collector's."""
    names = [topic[0] for topic in report.topics[: MOST_TOPICS + 1]]
    bounded = len(names) <= MOST_TOPICS and all(len(name) <= LONGEST_NAME for name in names)
    if not (bounded and is_broker(broker) and is_bundle(report.bundle)):
        return None
    return TopicsOfBundle(
        cluster,
        broker,
        ts,
        report.bundle,
        tuple(TopicLoad(*topic) for topic in report.topics),
        report.others,
        report.others_msg_rate,
        report.others_throughput,
        or_none(report.partitions),
        or_none(report.dispatch),
        origin,
    )


def to_outcome(record: OutcomeRecord, place: str = "$") -> model.Outcome:
    """Converts a record of the OUTCOMES topic. Raises WireError for invalid names."""
    check_bundles([record.bundle], f"{place}.bundle: {{}}")
    for broker, field in (
        (record.owner_before, "owner_before"),
        (record.owner_after, "owner_after"),
    ):
        if broker is not None:
            check_broker(broker, f"{place}.{field}")
    return model.Outcome(
        record.command_id,
        record.cluster,
        record.bundle,
        record.status,
        record.reason,
        record.owner_before,
        record.owner_after,
        record.took_ms,
        record.ts,
        MoveCost(
            or_none(record.unowned_ms),
            or_none(record.first_message_ms),
            or_none(record.topics),
            or_none(record.unloads),
            or_none(record.manager),
        ),
    )


_READERS: dict[type, Callable[[Any, bytes], model.TelemetryRecord]] = {
    LoadReportRecord: _load_report,
    BrokerLoadRecord: _broker_load,
    TopBundlesRecord: _top_bundles,
    SweepRecord: _sweep,
    PoliciesRecord: _policies,
    OutcomeReportRecord: _outcome_report,
    IntentRecord: to_intent,
    NoteRecord: _note,
}


def _figures(
    report: BrokerFigures,
    bundle_count: int,
    usage_average: float | None = None,
    throughput_average: float | None = None,
    updated_at_ms: int | None = None,
) -> model.Figures:
    return model.Figures(
        _resource(report.cpu, "cpu"),
        _resource(report.memory, "memory"),
        _resource(report.directMemory, "directMemory"),
        _resource(report.bandwidthIn, "bandwidthIn"),
        _resource(report.bandwidthOut, "bandwidthOut"),
        # Adding 0.0 turns -0.0 into 0.0: equal figures have equal bytes.
        model.Traffic(
            report.msgRateIn + 0.0,
            report.msgRateOut + 0.0,
            report.msgThroughputIn + 0.0,
            report.msgThroughputOut + 0.0,
        ),
        bundle_count,
        usage_average,
        throughput_average,
        updated_at_ms,
    )


def _unsigned(average: float | None) -> float | None:
    return None if average is None else average + 0.0


def _resource(resource: ResourceUsage, name: str) -> model.Resource:
    usage, limit = resource.usage, resource.limit
    if is_measured_or_not(usage, limit):
        return model.Resource(usage + 0.0, limit + 0.0)
    if usage < 0 or limit < 0:
        figure, value = ("usage", usage) if usage < 0 else ("limit", limit)
        raise WireError(
            "negative",
            f"$.report.{name}.{figure} is {value}, below 0; only -1 for usage and limit alike is "
            "legal (not measured yet).",
        )
    raise WireError(
        "out-of-range",
        f"$.report.{name}.limit is {limit}, above 0 and yet less than any real limit; send 0 "
        "where there is no limit.",
    )


def _bundle_stats(
    names: tuple[str, ...], stats: Iterable[NamespaceBundleStats]
) -> model.BundleStats:
    """Columns through flat arrays, the fastest way from objects into numpy."""
    figures: list[float] = []
    counts: list[int] = []
    for one in stats:
        figures += (one.msgRateIn, one.msgRateOut, one.msgThroughputIn, one.msgThroughputOut)
        counts += (one.topics, one.consumerCount + one.producerCount)
    traffic = np.frombuffer(array("d", figures), dtype=np.float64).reshape(-1, 4) + 0.0
    table = np.frombuffer(array("q", counts), dtype=np.int64).reshape(-1, 2)
    return model.BundleStats(names, traffic, table[:, 0].copy(), table[:, 1].copy())


def _digest(figures: model.Figures | None, bundles: model.BundleStats | None) -> str:
    """16 hex digits over the fields that make a report a new sample: CPU, traffic and bundles, but
    neither heap nor `lastUpdate`.
    """
    digest = hashlib.blake2b(digest_size=8)
    if figures is not None:
        cpu, traffic = figures.cpu, figures.traffic
        digest.update(
            _SIX_FIGURES.pack(
                cpu.usage,
                cpu.limit,
                traffic.msg_rate_in,
                traffic.msg_rate_out,
                traffic.msg_throughput_in,
                traffic.msg_throughput_out,
            )
        )
    if bundles is not None:
        digest.update("\n".join(bundles.names).encode())
        for column in (bundles.traffic, bundles.topics, bundles.sessions):
            digest.update(column.tobytes())
    return digest.hexdigest()

"""The load of brokers, bundles and topics now, by the newest report of each broker and the newest
note about the topics of each hot bundle: of the telemetry topic, or at the end of a recording.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sinks.recordings.copy_topic import of_recording
from sinks.topics.open_topics import records_of
from sinks.topics.topic_settings import Connections
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Sweep, TelemetryRecord, Tombstone
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.errors import WireError
from strategies.figures.usage import percent, weighted_usage
from strategies.settings import Weights

#: The resources of a broker; the last one, heap memory, never makes it full.
RESOURCES = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out", "memory")


def present_reports(
    connections: Connections, recording: Path | None, since_ms: int
) -> tuple[list[LoadReport], list[TopicsOfBundle]]:
    """The newest report of each broker of the newest sweeps, of an extensible one its newest
    figures and bundles together; the newest topics of each hot bundle. `since_ms`: of the topic,
    records published before do not count. Raises SettingsError, SinkError.
    """
    newest: dict[tuple[str, str], LoadReport] = {}
    topics: dict[tuple[str, str], TopicsOfBundle] = {}
    for record in _telemetry(connections, recording, since_ms):
        if isinstance(record, LoadReport):
            old = newest.get((record.cluster, record.broker), record)
            newest[record.cluster, record.broker] = replace(
                record,
                figures=record.figures or old.figures,
                bundles=record.bundles or old.bundles,
            )
        elif isinstance(record, TopicsOfBundle):
            topics[record.cluster, record.bundle] = record
        elif isinstance(record, Tombstone):
            newest.pop((record.cluster, record.broker), None)
        elif isinstance(record, Sweep):
            listed = {(record.cluster, broker) for broker in (*record.brokers, *record.missing)}
            newest = {
                key: one for key, one in newest.items() if key[0] != record.cluster or key in listed
            }
    return [newest[key] for key in sorted(newest)], [topics[key] for key in sorted(topics)]


def _telemetry(
    connections: Connections, recording: Path | None, since_ms: int
) -> Iterator[TelemetryRecord]:
    """Usable records, in the order of the log."""
    topic, access = connections.topics.telemetry, connections.access
    for one in (
        of_recording(recording)
        if recording is not None
        else records_of(topic, access, since_ms, connections.source, connections.wire)
    ):
        with suppress(WireError):
            yield decode(one.value, b"", connections.wire)


def broker_rows(reports: Iterable[LoadReport], weights: Weights) -> list[dict[str, Any]]:
    """One row per broker with figures, that with the highest usage first. `usage`: as in rounds;
    `fullest`: its fullest resource but the heap, weighted or not; resources and usage: fractions;
    rates: messages/s and bytes/s in + out.
    """
    rows = [
        {
            "cluster": one.cluster,
            "broker": one.broker,
            "ts": one.ts,
            "usage": weighted_usage(figures, weights),
            "fullest": max(RESOURCES[:-1], key=lambda name: percent(getattr(figures, name))),
            **{name: percent(getattr(figures, name)) / 100 for name in RESOURCES},
            "msg_rate": figures.traffic.msg_rate,
            "msg_throughput": figures.traffic.msg_throughput,
            "bundles": figures.bundle_count,
        }
        for one in reports
        if (figures := one.figures) is not None
    ]
    return sorted(rows, key=lambda row: (-row["usage"], row["cluster"], row["broker"]))


def bundle_rows(reports: Iterable[LoadReport]) -> list[dict[str, Any]]:
    """One row per bundle, that with the most throughput first. Extensible brokers report the
    busiest bundles only.
    """
    rows = [
        {
            "cluster": report.cluster,
            "bundle": name,
            "broker": report.broker,
            "msg_rate": rate_in + rate_out,
            "msg_throughput": data_in + data_out,
            "topics": topics,
            "sessions": sessions,
        }
        for report in reports
        if (stats := report.bundles) is not None
        for name, (rate_in, rate_out, data_in, data_out), topics, sessions in zip(
            stats.names,
            stats.traffic.tolist(),
            stats.topics.tolist(),
            stats.sessions.tolist(),
            strict=True,
        )
    ]
    return sorted(rows, key=lambda row: (-row["msg_throughput"], row["cluster"], row["bundle"]))


def topic_rows(notes: Iterable[TopicsOfBundle]) -> list[dict[str, Any]]:
    """One row per topic of a hot bundle, that with the most throughput first."""
    rows = [
        {
            "cluster": note.cluster,
            "topic": one.name,
            "bundle": note.bundle,
            "broker": note.broker,
            "msg_rate": one.msg_rate,
            "msg_throughput": one.throughput,
        }
        for note in notes
        for one in note.topics
    ]
    return sorted(rows, key=lambda row: (-row["msg_throughput"], row["cluster"], row["topic"]))

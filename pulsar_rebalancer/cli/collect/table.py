"""The brokers of one pass as a table or JSON: usage and traffic of each, or why it did not
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pulsar_rebalancer.cli import console
from sinks.collector.broker_poll import Pass, Report
from sinks.collector.encoding_telemetry import encode_report
from sinks.wire.codec import decode
from strategies.cluster.model import LoadReport
from strategies.errors import WireError
from strategies.figures.usage import percent, weighted_usage
from strategies.settings import Weights


class _ReportedTopics(msgspec.Struct):
    """Topics in an extensible broker's report; modular ones report them per bundle."""

    topics: int | None = None


_TOPICS = msgspec.json.Decoder(_ReportedTopics)


@dataclass(frozen=True, slots=True)
class Seen:
    """One broker: its report and number of topics, or the reason why there is none."""

    broker: str
    report: LoadReport | None
    topics: int | None
    why: str


def seen(cluster: str, done: Pass) -> list[Seen]:
    """All brokers of a pass, sorted by name."""
    found = {broker: Seen(broker, None, None, reason) for broker, reason in done.missing.items()}
    for report in done.reports:
        if report.kind != "top-bundles-load-data" and report.broker in done.answered:
            found[report.broker] = _seen(cluster, report)
    return [found[broker] for broker in sorted(found)]


def _seen(cluster: str, report: Report) -> Seen:
    try:
        record = decode(encode_report(cluster, report), b"")
    except WireError as error:
        return Seen(report.broker, None, None, f"its report cannot be used: {error}")
    if not isinstance(record, LoadReport):
        return Seen(report.broker, None, None, "it has withdrawn its figures")
    topics = (
        _TOPICS.decode(report.body).topics
        if record.bundles is None
        else int(record.bundles.topics.sum())
    )
    return Seen(report.broker, record, topics, "")


def as_table(brokers: Sequence[Seen], weights: Weights) -> console.Sheet:
    """One row per broker."""
    columns: list[tuple[str, console.Side]] = [
        ("broker", "left"),
        ("usage %", "right"),
        ("CPU %", "right"),
        ("msg/s in", "right"),
        ("msg/s out", "right"),
        ("MB/s in", "right"),
        ("MB/s out", "right"),
        ("bundles", "right"),
        ("topics", "right"),
        ("remark", "left"),
    ]
    return console.Sheet(
        columns, [[one.broker, *_figures(one, weights), one.why] for one in brokers]
    )


def as_json(brokers: Sequence[Seen], weights: Weights) -> list[dict[str, Any]]:
    """The same figures by name; null for a broker without figures."""
    return [_fields(one, weights) for one in brokers]


def _figures(one: Seen, weights: Weights) -> list[str]:
    fields = _fields(one, weights)
    if one.report is None:
        return ["–"] * 8
    return [
        f"{fields['usage'] * 100:.1f}",
        f"{fields['cpu_percent']:.1f}",
        f"{fields['msg_rate_in']:.0f}",
        f"{fields['msg_rate_out']:.0f}",
        f"{fields['msg_throughput_in'] / 1e6:.2f}",
        f"{fields['msg_throughput_out'] / 1e6:.2f}",
        str(fields["bundles"]),
        "–" if one.topics is None else str(one.topics),
    ]


def _fields(one: Seen, weights: Weights) -> dict[str, Any]:
    figures = None if one.report is None else one.report.figures
    if one.report is None or figures is None:
        return {"broker": one.broker, "missing": one.why}
    traffic = figures.traffic
    return {
        "broker": one.broker,
        "missing": None,
        "usage": weighted_usage(figures, weights),
        "cpu_percent": percent(figures.cpu),
        "msg_rate_in": traffic.msg_rate_in,
        "msg_rate_out": traffic.msg_rate_out,
        "msg_throughput_in": traffic.msg_throughput_in,
        "msg_throughput_out": traffic.msg_throughput_out,
        "bundles": figures.bundle_count,
        "topics": one.topics,
    }

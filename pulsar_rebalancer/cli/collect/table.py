"""The brokers of one pass as a table or JSON: usage and traffic of each, or why it did not
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsar_rebalancer.cli import console
from sinks.collector.broker_poll import Pass, Report
from sinks.collector.collector import encode_report
from sinks.wire.codec import decode
from strategies.cluster.model import LoadReport
from strategies.errors import WireError
from strategies.figures.usage import percent, weighted_usage
from strategies.settings import Weights


class _ReportedTopics(msgspec.Struct):
    """Topics in an extensible broker's report; modular ones report them per bundle."""

    topics: int | None = None


_TOPICS = msgspec.json.Decoder(_ReportedTopics)


def brokers_of(cluster: str, done: Pass, weights: Weights) -> list[dict[str, Any]]:
    """The figures of all brokers of a pass, sorted by name; `missing`: why a broker has none, else
    null.
    """
    found: dict[str, dict[str, Any]] = {
        broker: {"broker": broker, "missing": reason} for broker, reason in done.missing.items()
    }
    for report in done.reports:
        if report.kind != "top-bundles-load-data" and report.broker in done.answered:
            found[report.broker] = {"broker": report.broker, **_figures(cluster, report, weights)}
    return [found[broker] for broker in sorted(found)]


def _figures(cluster: str, report: Report, weights: Weights) -> dict[str, Any]:
    try:
        record = decode(encode_report(cluster, report), b"")
    except WireError as error:
        return {"missing": f"its report cannot be used: {error}"}
    if not isinstance(record, LoadReport) or record.figures is None:
        return {"missing": "it has withdrawn its figures"}
    figures, traffic = record.figures, record.figures.traffic
    topics = (
        _TOPICS.decode(report.body).topics
        if record.bundles is None
        else int(record.bundles.topics.sum())
    )
    return {
        "missing": None,
        "usage": weighted_usage(figures, weights),
        "cpu_percent": percent(figures.cpu),
        "msg_rate_in": traffic.msg_rate_in,
        "msg_rate_out": traffic.msg_rate_out,
        "msg_throughput_in": traffic.msg_throughput_in,
        "msg_throughput_out": traffic.msg_throughput_out,
        "bundles": figures.bundle_count,
        "topics": topics,
    }


def as_table(brokers: Sequence[Mapping[str, Any]]) -> console.Sheet:
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
    return console.Sheet(columns, [_row(one) for one in brokers])


def _row(one: Mapping[str, Any]) -> list[str]:
    if one["missing"] is not None:
        return [one["broker"], *["–"] * 8, one["missing"]]
    return [
        one["broker"],
        f"{one['usage'] * 100:.1f}",
        f"{one['cpu_percent']:.1f}",
        f"{one['msg_rate_in']:.0f}",
        f"{one['msg_rate_out']:.0f}",
        f"{one['msg_throughput_in'] / 1e6:.2f}",
        f"{one['msg_throughput_out'] / 1e6:.2f}",
        str(one["bundles"]),
        "–" if one["topics"] is None else str(one["topics"]),
        "",
    ]

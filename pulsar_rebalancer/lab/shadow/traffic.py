"""Evidence of manual moves: traffic, because shedders do not take from brokers with little of it,
and notes of manual unloads.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec


class _Carried(msgspec.Struct, rename="camel"):
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0


class _Report(msgspec.Struct):
    kind: str
    cluster: str
    broker: str
    ts: int
    report: _Carried


class _Unload(msgspec.Struct, tag_field="event", tag="unload"):
    bundle: str


class _Event(msgspec.Struct, tag_field="note", tag="event"):
    cluster: str
    ts: int
    report: _Unload


_EVENT = msgspec.json.Decoder(_Event)
_REPORT = msgspec.json.Decoder(_Report)
_KINDS = ("load-report", "broker-load-data")


@dataclass(slots=True)
class _Column:
    """A broker's reports in order: times (ms), messages/s and bytes/s, in + out."""

    times: array[int] = field(default_factory=lambda: array("q"))
    rates: array[float] = field(default_factory=lambda: array("d"))
    throughputs: array[float] = field(default_factory=lambda: array("d"))


class TrafficWatch:
    """Collects traffic from the same records as `OwnershipWatch`. Decodes only four figures of a
    report.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, dict[str, _Column]] = {}
        self._unloads: dict[tuple[str, str], list[int]] = {}

    def feed(self, line: bytes) -> None:
        """Adds a record. Ignores records that are not reports, and reports older than the broker's
        newest.
        """
        try:
            record = _REPORT.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._note(line)
            return
        column = self._clusters.setdefault(record.cluster, {}).setdefault(record.broker, _Column())
        if record.kind not in _KINDS or (column.times and record.ts < column.times[-1]):
            return
        carried = record.report
        column.times.append(record.ts)
        column.rates.append(carried.msg_rate_in + carried.msg_rate_out)
        column.throughputs.append(carried.msg_throughput_in + carried.msg_throughput_out)

    def unloaded(self, cluster: str, bundle: str, since_ms: int, until_ms: int) -> bool:
        """Whether a note reports a manual unload of the bundle in that time."""
        return any(since_ms <= ts <= until_ms for ts in self._unloads.get((cluster, bundle), ()))

    def _note(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        self._unloads.setdefault((event.cluster, event.report.bundle), []).append(event.ts)

    def between(self, cluster: str, since_ms: int, until_ms: int) -> Iterator[dict[str, float]]:
        """The maximum of each broker in that time: first messages/s, then bytes/s."""
        parts = []
        for broker, column in self._clusters.get(cluster, {}).items():
            begin, end = bisect_left(column.times, since_ms), bisect_right(column.times, until_ms)
            if begin < end:
                parts.append(
                    (broker, max(column.rates[begin:end]), max(column.throughputs[begin:end]))
                )
        yield {broker: rate for broker, rate, _ in parts}
        yield {broker: throughput for broker, _, throughput in parts}

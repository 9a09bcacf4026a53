"""Evidence of manual moves: traffic, because shedders do not take from brokers with little of it,
and notes of manual unloads.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from strategies.cluster.model import Traffic


@dataclass(slots=True)
class _Column:
    """A broker's reports in order: times (ms), messages/s and bytes/s, in + out."""

    times: array[int] = field(default_factory=lambda: array("q"))
    rates: array[float] = field(default_factory=lambda: array("d"))
    throughputs: array[float] = field(default_factory=lambda: array("d"))


class TrafficWatch:
    """Traffic of the brokers over time, and manual unloads; `OwnershipWatch` feeds it."""

    def __init__(self) -> None:
        self._clusters: dict[str, dict[str, _Column]] = {}
        self._unloads: dict[tuple[str, str], list[int]] = {}

    def report(self, cluster: str, broker: str, ts: int, traffic: Traffic) -> None:
        """Adds a report; ignores those older than the broker's newest."""
        column = self._clusters.setdefault(cluster, {}).setdefault(broker, _Column())
        if column.times and ts < column.times[-1]:
            return
        column.times.append(ts)
        column.rates.append(traffic.msg_rate)
        column.throughputs.append(traffic.msg_throughput)

    def unload(self, cluster: str, bundle: str, ts: int) -> None:
        """Adds a manual unload, as a note reports it."""
        self._unloads.setdefault((cluster, bundle), []).append(ts)

    def unloaded(self, cluster: str, bundle: str, since_ms: int, until_ms: int) -> bool:
        """Whether a note reports a manual unload of the bundle in that time."""
        return any(since_ms <= ts <= until_ms for ts in self._unloads.get((cluster, bundle), ()))

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

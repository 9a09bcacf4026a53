"""Load of a recorded cluster: the mean per interval, of everything together or per namespace.

A broker's report is valid until the next one, until it is withdrawn, until a pass neither lists nor
misses the broker, or until it is stale. Bundles that another broker reports meanwhile no longer
count in it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from sinks.recordings.columnar import FIGURES, KINDS
from sinks.recordings.columnar_reading import Block
from strategies.bundles import (
    RATE_IN,
    RATE_OUT,
    THROUGHPUT_IN,
    Floats,
    is_system_bundle,
    namespace_of,
)
from strategies.cluster.cluster_state import Clock
from strategies.cluster.model import BundleStats, Sweep, Tombstone
from strategies.fold.producer_votes import ClockVerdict, judge_clock
from strategies.ordered_sum import ordered_sum
from strategies.settings import RoundSettings

Per = Literal["cluster", "namespace"]
#: Name of the load of everything together, as brokers report it; it includes Pulsar's own bundles,
#: which are in no namespace.
EVERYTHING, OWN = "all", ""
_DAY_MS = 86_400_000
_TRAFFIC = [
    FIGURES.index(name)
    for name in ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
]
_REPORT, _REJECTED = KINDS.index("report"), KINDS.index("rejected")


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """`traffic`: float64[intervals, 4], mean per interval, columns of a bundle table. `bundles`,
    `topics`: their numbers at the end.
    """

    name: str
    traffic: Floats
    bundles: int
    topics: int

    @property
    def received(self) -> Floats:
        """float64[intervals]: bytes/s in."""
        return self.traffic[:, THROUGHPUT_IN]

    @property
    def message_bytes(self) -> float:
        """Mean size of a message; NaN without messages."""
        return self._per_message(THROUGHPUT_IN)

    @property
    def fan_out(self) -> float:
        """Mean number of reads per message; NaN without messages."""
        return self._per_message(RATE_OUT)

    def _per_message(self, column: int) -> float:
        messages = float(self.traffic[:, RATE_IN].mean())
        return float(self.traffic[:, column].mean()) / messages if messages > 0 else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Loads:
    """The loads of one cluster. `seconds`: duration with known load; `silent`: intervals that ended
    without a valid report.

    `strayed`: records that do not count because their time is implausible. `everything` first, then
    each namespace, ordered by name.
    """

    cluster: str
    begins_ms: int
    seconds: float
    silent: int
    strayed: int
    everything: Load
    namespaces: tuple[Load, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result: loads by cluster name, number of records, and number of invalid ones among
    them.
    """

    clusters: Mapping[str, Loads]
    records: int
    rejected: int


def loads_of(blocks: Iterable[Block], interval_ms: int, rule: RoundSettings, per: Per) -> Reading:
    """All loads of a recording. `rule`: when a report is stale and when a clock has changed. Raises
    SinkError if it cannot be read.
    """
    gathered: dict[str, _ClusterLoads] = {}
    records = rejected = 0
    for block in blocks:
        records, rejected = records + len(block), rejected + int((block.kinds == _REJECTED).sum())
        for row in np.flatnonzero(block.kinds != _REJECTED).tolist():
            name = block.texts["cluster"][block.clusters[row]]
            if block.kinds[row] == _REPORT:
                gathered.setdefault(name, _ClusterLoads(interval_ms, rule, per)).report(block, row)
            elif name in gathered:
                match block.record(row):
                    case Sweep() as sweep:
                        gathered[name].sweep(sweep)
                    case Tombstone() as withdrawn:
                        gathered[name].withdraw(withdrawn)
    return Reading(
        {name: one.loads(name) for name, one in sorted(gathered.items())}, records, rejected
    )


class _ClusterLoads:
    """Integrates step functions: each broker's last report × the time for which it was valid."""

    def __init__(self, interval_ms: int, rule: RoundSettings, per: Per) -> None:
        self._interval_ms, self._rule, self._per = interval_ms, rule, per
        self._strayed = 0
        self._clock: Clock | None = None
        self._start_over()

    def _start_over(self) -> None:
        self._columns = {EVERYTHING: 0, OWN: 1}
        self._now: dict[str, Floats] = {}
        self._heard: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._tables: dict[str, BundleStats] = {}
        self._begins_ms: int | None = None
        self._at_ms = 0
        self._sums: list[Floats] = []
        self._silent: set[int] = set()

    def report(self, block: Block, row: int) -> None:
        """Adds a report of a broker's figures, its bundles, or both."""
        broker, ts = block.texts["broker"][block.brokers[row]], int(block.ts[row])
        if not self._believes(ts) or ts < self._heard.get(broker, ts):
            return
        has_figures = not np.isnan(block.figures[row, 0])
        if self._begins_ms is None and has_figures and ts > self._first.setdefault(broker, ts):
            self._begin(ts)
        self._until(ts)
        self._heard[broker] = ts
        known = self._now.get(broker)
        fresh = np.zeros((len(self._columns), 4)) if known is None else known.copy()
        if has_figures:
            fresh[0] = block.figures[row, _TRAFFIC]
        table = block.stats(row)
        if table is not None:
            before = self._tables.get(broker)
            if before is None or before.names != table.names:
                self._take_over(
                    broker,
                    frozenset(table.names).difference(() if before is None else before.names),
                )
            self._tables[broker] = table
            fresh = self._with_namespaces(fresh, table)
        self._now[broker] = fresh

    def sweep(self, sweep: Sweep) -> None:
        """Adds the end of a pass; removes brokers that it neither lists nor misses."""
        if not self._believes(sweep.ts):
            return
        self._until(sweep.ts)
        for broker in sorted(self._now.keys() - set(sweep.brokers) - sweep.missing.keys()):
            self._drop(broker)
        if self._begins_ms is None and self._now:
            self._begin(sweep.ts)

    def withdraw(self, record: Tombstone) -> None:
        """Removes a broker that withdrew its report."""
        if self._believes(record.ts) and record.ts >= self._heard.get(record.broker, record.ts):
            self._until(record.ts)
            self._drop(record.broker)

    def loads(self, name: str) -> Loads:
        """The loads of all complete intervals."""
        begins = self._at_ms if self._begins_ms is None else self._begins_ms
        count = (self._at_ms - begins) // self._interval_ms
        traffic = np.zeros((count, len(self._columns), 4))
        for number, sums in enumerate(self._sums[:count]):
            traffic[number, : len(sums)] = sums / self._interval_ms
        tables = self._counts()
        loads = [
            Load(namespace, traffic[:, column], *tables.get(namespace, (0, 0)))
            for namespace, column in sorted(self._columns.items())
            if namespace not in (EVERYTHING, OWN)
        ]
        everything = Load(
            EVERYTHING,
            traffic[:, 0],
            *(ordered_sum(counts[at] for counts in tables.values()) for at in (0, 1)),
        )
        return Loads(
            name,
            begins,
            (self._at_ms - begins) / 1000,
            sum(number < count for number in self._silent),
            self._strayed,
            everything,
            tuple(loads),
        )

    def _take_over(self, broker: str, names: frozenset[str]) -> None:
        """Removes a broker's bundles from the earlier reports of other brokers."""
        for other, table in list(self._tables.items()):
            if other == broker or names.isdisjoint(table.names):
                continue
            left = _without(table, names)
            before, after = table.traffic.sum(axis=0), left.traffic.sum(axis=0)
            now = self._now[other].copy()
            now[0] *= np.divide(after, before, out=np.ones(4), where=before > 0)
            self._tables[other], self._now[other] = left, self._with_namespaces(now, left)

    def _believes(self, ts: int) -> bool:
        """Whether a time is plausible: at most a day off, so that one wrong clock adds no years of
        silence, or all are off for long enough.

        An implausible time before the trace begins restarts it, and so does a clock that has really
        changed.
        """
        believed: ClockVerdict = "believed"
        if self._clock is None:
            self._clock = Clock(ts)
        else:
            self._clock, believed = judge_clock(
                self._clock, ts, _DAY_MS, self._rule.clock_recovery_ms
            )
        if believed in ("ahead", "behind") and self._begins_ms is not None:
            self._strayed += 1
            return False
        if believed != "believed":
            self._start_over()
            self._clock = Clock(ts)
        return True

    def _begin(self, ts: int) -> None:
        self._begins_ms = self._at_ms = ts

    def _until(self, ts: int) -> None:
        """Integrates the current reports up to `ts`, or to the time at which they become stale."""
        while self._heard:
            broker = min(self._heard, key=lambda one: (self._heard[one], one))
            stale_at = self._heard[broker] + self._rule.stale_after_ms
            if stale_at >= ts:
                break
            self._hold(stale_at)
            self._drop(broker)
        self._hold(ts)

    def _hold(self, ts: int) -> None:
        if self._begins_ms is None:
            self._at_ms = max(self._at_ms, ts)
            return
        total = np.zeros((len(self._columns), 4))
        for one in self._now.values():
            total[: len(one)] += one
        while self._at_ms < ts:
            number = (self._at_ms - self._begins_ms) // self._interval_ms
            edge = min(ts, self._begins_ms + (number + 1) * self._interval_ms)
            while len(self._sums) <= number:
                self._sums.append(np.zeros((0, 4)))
            sums = total * (edge - self._at_ms)
            before = self._sums[number]
            sums[: len(before)] += before
            self._sums[number] = sums
            if not self._now:
                self._silent.add(number)
            self._at_ms = edge

    def _drop(self, broker: str) -> None:
        self._now.pop(broker, None)
        self._heard.pop(broker, None)
        self._tables.pop(broker, None)

    def _with_namespaces(self, figures: Floats, table: BundleStats) -> Floats:
        """float64[columns, 4]: the figures of everything, then the sums of each namespace."""
        if self._per == "cluster":
            return figures
        namespaces = _namespaces(table.names)
        for namespace in namespaces:
            self._columns.setdefault(namespace, len(self._columns))
        places = (
            np.array([self._columns[namespace] for namespace in namespaces], dtype=np.int64) - 1
        )
        sums = [
            np.bincount(places, table.traffic[:, at], minlength=len(self._columns) - 1)
            for at in range(4)
        ]
        return np.concatenate([figures[:1], np.stack(sums, axis=1)])

    def _counts(self) -> dict[str, tuple[int, int]]:
        """Namespace → number of bundles and topics, from the last reports; each bundle counts
        once.
        """
        topics: dict[str, dict[str, int]] = {}
        for table in self._tables.values():
            for bundle, namespace, count in zip(
                table.names, _namespaces(table.names), table.topics.tolist(), strict=True
            ):
                if namespace != OWN:
                    topics.setdefault(namespace, {})[bundle] = count
        return {
            namespace: (len(counts), ordered_sum(counts.values()))
            for namespace, counts in topics.items()
        }


def _without(table: BundleStats, names: frozenset[str]) -> BundleStats:
    left = [place for place, name in enumerate(table.names) if name not in names]
    return BundleStats(
        tuple(table.names[place] for place in left),
        table.traffic[left],
        table.topics[left],
        table.sessions[left],
    )


@lru_cache(maxsize=4096)
def _namespaces(names: tuple[str, ...]) -> tuple[str, ...]:
    """The namespace of each bundle; `OWN` for Pulsar's own bundles."""
    return tuple(OWN if is_system_bundle(name) else namespace_of(name) for name in names)

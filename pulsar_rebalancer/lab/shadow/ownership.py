"""Bundles that changed owners, from telemetry: a modular broker reports all its bundles, those of
extensible ones are in notes.

A bundle was unloaded if its previous owner was still alive. Bundles of brokers that left, bundles
without a previous owner and halves of split bundles were not.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import msgspec

from sinks.wire.record_decoding import decode
from strategies.bundles import is_system_bundle
from strategies.cluster.model import (
    LoadReport,
    Note,
    OutcomeReport,
    Owned,
    Sweep,
    TelemetryRecord,
    Traffic,
)


@dataclass(slots=True)
class _Column:
    """A broker's reports in order: times (ms), messages/s and bytes/s, in + out."""

    times: "array[int]" = field(default_factory=lambda: array("q"))
    rates: "array[float]" = field(default_factory=lambda: array("d"))
    throughputs: "array[float]" = field(default_factory=lambda: array("d"))


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


@dataclass(frozen=True, slots=True)
class Moved:
    """A bundle that changed owners. `ts`: time at which the new owner first listed it, in ms."""

    cluster: str
    bundle: str
    source: str
    destination: str
    ts: int


class _Brokers(msgspec.Struct):
    brokers: list[str]


class _ClusterView(msgspec.Struct, tag_field="note", tag="cluster-view"):
    report: _Brokers


class _Unload(msgspec.Struct, tag_field="event", tag="unload"):
    bundle: str


class _Event(msgspec.Struct, tag_field="note", tag="event"):
    report: _Unload


#: Notes for people, which the codec does not read.
_NOTES = msgspec.json.Decoder(_ClusterView | _Event)


@dataclass(slots=True)
class _ClusterOwners:
    owner: dict[str, str] = field(default_factory=dict)
    listed: dict[str, frozenset[str]] = field(default_factory=dict)
    waiting: list[Moved] = field(default_factory=list)
    doubtful: list[Moved] = field(default_factory=list)
    ours: set[str] = field(default_factory=set)
    alive: Collection[str] | None = None
    #: Brokers without figures. Extensible ones withdraw their figures when a bundle moves; `noted`:
    #: owners from notes, which continue.
    mute: Collection[str] = ()
    noted: bool = False


class OwnershipWatch:
    """Finds moves in records, fed in order. Returns a move after the next census of brokers shows
    that the old owner is still alive.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, _ClusterOwners] = {}
        self.first_ms: int | None = None
        self.last_ms = 0
        #: Bundles that an executor moved: a recording with such moves is not one of shadow mode.
        self.applied = 0
        self.traffic = TrafficWatch()

    def feed(self, line: bytes) -> list[Moved]:
        """The moves that are certain after this record. Raises WireError for records that are not
        telemetry.
        """
        return list(self._feed(decode(line, b""), line))

    def _feed(self, record: TelemetryRecord, line: bytes) -> Iterator[Moved]:
        self.first_ms = record.ts if self.first_ms is None else self.first_ms
        self.last_ms = max(self.last_ms, record.ts)
        cluster = self._clusters.setdefault(record.cluster, _ClusterOwners())
        if isinstance(record, LoadReport) and record.figures is not None:
            self.traffic.report(record.cluster, record.broker, record.ts, record.figures.traffic)
        match record:
            case LoadReport() if record.figures is not None and record.bundles is not None:
                self._own(cluster, record.cluster, record.broker, record.bundles.names, record.ts)
            case Owned():
                cluster.noted = True
                self._own(cluster, record.cluster, record.broker, record.bundles, record.ts)
            case Note():
                yield from self._note(cluster, record, line)
            case Sweep():
                cluster.mute = set(record.missing) if cluster.noted else ()
                yield from self._census(cluster, set(record.brokers))
            case OutcomeReport() if record.outcome.status == "applied":
                cluster.ours.add(record.outcome.bundle)
                self.applied += 1

    def known(self, cluster: str) -> set[str]:
        """The bundles of a cluster with a known owner."""
        return set(self._clusters[cluster].owner) if cluster in self._clusters else set()

    def rest(self) -> Iterator[Moved]:
        """Moves after the last census, from brokers that were alive then."""
        for cluster in self._clusters.values():
            yield from self._census(cluster, cluster.alive)

    def _note(self, cluster: _ClusterOwners, note: Note, line: bytes) -> Iterator[Moved]:
        try:
            report = _NOTES.decode(line).report
        except msgspec.DecodeError:
            return
        if isinstance(report, _Unload):
            self.traffic.unload(note.cluster, report.bundle, note.ts)
        else:
            yield from self._census(cluster, set(report.brokers))

    def _own(
        self,
        cluster: _ClusterOwners,
        name: str,
        broker: str,
        bundles: Collection[str],
        ts: int,
    ) -> None:
        # A broker's report is seconds to minutes old: a broker that still lists a bundle of another
        # one has not noticed its loss yet. A broker's first report does not show when it got a
        # bundle that another broker lists too.
        already = cluster.listed.get(broker)
        cluster.listed[broker] = frozenset(bundles)
        for bundle in bundles:
            before = cluster.owner.get(bundle)
            not_new = already is None or bundle in already
            if (
                before not in (None, broker)
                and not_new
                and bundle in cluster.listed.get(str(before), frozenset())
            ):
                continue
            cluster.owner[bundle] = broker
            if before not in (None, broker) and not is_system_bundle(bundle):
                if bundle in cluster.ours:
                    cluster.ours.discard(bundle)
                else:
                    cluster.waiting.append(Moved(name, bundle, str(before), broker, ts))

    def _census(self, cluster: _ClusterOwners, alive: Collection[str] | None) -> Iterator[Moved]:
        """Moves from brokers that are alive. A broker without figures must itself have reported the
        loss, at the latest by this census.
        """
        cluster.alive = alive
        if alive is not None:
            cluster.listed = {
                broker: names
                for broker, names in cluster.listed.items()
                if broker in alive or broker in cluster.mute
            }
        waiting, doubtful = cluster.waiting, cluster.doubtful
        cluster.waiting, cluster.doubtful = [], []
        for moved in [*doubtful, *waiting]:
            given_up = moved.bundle not in cluster.listed.get(moved.source, frozenset())
            if (
                alive is None
                or moved.source in alive
                or (moved.source in cluster.mute and given_up)
            ):
                yield moved
            elif moved.source in cluster.mute and moved in waiting:
                cluster.doubtful.append(moved)

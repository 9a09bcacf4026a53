"""The engine inside transformWithState: folds the records of a shard's clusters in topic order over
state that Spark stores and checkpoints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.rare_collections import rare_collections
from sinks.wall_clock import wall_clock_ms
from sinks.wire.output_rows import OutputRow, event_row, over_quota_row
from sinks.wire.signing import SigningKey, SigningSettings, signing_key
from strategies.cluster.model import LoadReport, TelemetryRecord
from strategies.cluster.store import StateStore
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import without_unseen
from strategies.fold.reports import newest_report_ms
from strategies.fold.vanished_clusters import forget_ms
from streaming.decode import ReadRows, Unread
from streaming.outputs.facts import FACTS, BatchTally
from streaming.state.store import STATE_KEY, STATE_VALUE, Rows, ShardStore, StoreCache
from streaming.state.vanished import ForgetPolicy
from streaming.worker_process import Freezer, leave_open, log_once

#: `seq` numbers the rows of one cluster within a micro-batch, in fold order.
OUTPUT = StructType(
    [
        StructField("kind", StringType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        StructField("seq", LongType()),
    ]
)


#: The boundary of a job without a warm start.
PUBLISH_ALL: Mapping[int, int] = MappingProxyType({})
#: Cache of this process, which Spark reuses for the next micro-batch. 256 MiB are about 15,000
#: brokers with 100 bundles each.
_KEPT = StoreCache(256 * 2**20)
_FREEZER = Freezer()


class ClusterProcessor(StatefulProcessor):
    """One call per shard and micro-batch, for all clusters of the shard. Spark copies it for every
    task, so it holds settings only.
    """

    def __init__(
        self,
        settings: EngineSettings,
        signing: SigningSettings,
        read_rows: ReadRows,
        kept: StoreCache | None = None,
        *,
        metrics: MetricsSettings = METRICS_OFF,
        forget_policy: ForgetPolicy = ForgetPolicy(),
        until: Mapping[int, int] = PUBLISH_ALL,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`kept`: replaces the process-wide cache of stores; only within one process. `metrics`: if
        they are on, each call adds one row of facts. `forget_policy`: of clusters that vanish,
        after the time that the engine's settings name. `until`: partition → offset of its first
        record whose rows are published; in other partitions, those of all records are. `clock_ms`:
        this machine's, since the epoch.
        """
        self._settings = settings
        self._signing = signing
        self._read_rows = read_rows
        self._kept = kept
        self._metrics = metrics
        self._forget_policy = replace(forget_policy, after_ms=forget_ms(settings.round))
        self._clock_ms = clock_ms
        self._until = until

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._engine = Engine(self._settings, log_once)
        # Read here: the key itself is never serialised with the job.
        self._key = signing_key(self._signing)
        self._state = handle.getMapState("state", STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        with rare_collections():
            found = self._handled(key[0], rows)
        if self._kept is None:
            _FREEZER.after_batch()
        return iter(found)

    def _handled(self, number: int, rows: Iterator[Any]) -> list[Row]:
        tally = BatchTally(per_broker=self._metrics.per_broker) if self._metrics.listen else None
        kept, state = _KEPT if self._kept is None else self._kept, Rows(self._state)
        shard = kept.open(number, state)
        outputs = [
            row
            for cluster, records in by_cluster(self._read_rows(rows)).items()
            for row in self._fold(cluster, records, shard, tally)
        ]
        vanished = shard.drop_vanished(self._clock_ms(), self._forget_policy)
        shard.flush(state)
        kept.keep(number, shard)
        found = [
            Row(kind=row.kind, key=row.key, value=row.value, seq=seq)
            for seq, row in enumerate(outputs)
        ]
        if tally is not None:
            tally.vanished(vanished)
            found.append(Row(kind=FACTS, key="", value=tally.value(), seq=len(found)))
        return found

    def _fold(
        self,
        cluster: str,
        records: Sequence[Unread],
        shard: ShardStore,
        tally: BatchTally | None,
    ) -> list[OutputRow]:
        if not cluster:  # the cluster is unknown: rejected rows only
            outputs = [
                found
                for one in records
                if is_published(one, self._until) and isinstance(found := one.decoded(), OutputRow)
            ]
            if tally is not None:
                tally.add(cluster, outputs, None)
            return outputs
        store = shard.cluster(cluster)
        seen = FoldNotes()
        outputs = list(fold(self._engine, records, store, self._key, seen=seen, until=self._until))
        if tally is not None:
            tally.add(cluster, outputs, newest_accepted_ms(seen.brokers, store), seen.set_aside)
        return outputs

    def close(self) -> None:
        """Closes nothing: the cache of stores outlives the task."""
        leave_open(self._handle)


@dataclass(slots=True)
class FoldNotes:
    """What `fold` has seen: brokers of reports, and the number of records beyond the quota."""

    brokers: dict[str, None] = field(default_factory=dict)
    set_aside: int = 0


def fold(
    engine: Engine,
    records: Iterable[Unread],
    store: StateStore,
    key: SigningKey | None = None,
    *,
    seen: FoldNotes | None = None,
    until: Mapping[int, int] = PUBLISH_ALL,
) -> Iterator[OutputRow]:
    """Output rows of a cluster's records, in order; commands are signed if there is a key.

    `seen`: gets what the facts need; `until`: see ClusterProcessor.
    """
    seen = FoldNotes() if seen is None else seen
    for one in records:
        published = is_published(one, until)
        if published and engine.drops_unconfirmed_moves:
            end_of_window(store)
        admitted, earlier = True, None
        if one.has_quota:
            admitted, earlier = engine.admits(one.arrival, store)
        rows = [] if earlier is None else [over_quota_row(earlier, one.cluster)]
        if not admitted:
            seen.set_aside += 1
        else:
            rows += _rows(engine, one.decoded(), store, key, seen)
        if published:
            yield from rows
        elif engine.drops_unconfirmed_moves and any(row.kind == "commands" for row in rows):
            store.put_cluster(replace(store.get_cluster(), dropped=True))


def end_of_window(store: StateStore) -> None:
    """Takes back what a warm start has dropped, before the first record that is published."""
    state = store.get_cluster()
    if state.dropped:
        store.put_cluster(without_unseen(state))


def _rows(
    engine: Engine,
    found: TelemetryRecord | OutputRow,
    store: StateStore,
    key: SigningKey | None,
    seen: FoldNotes,
) -> list[OutputRow]:
    if isinstance(found, OutputRow):
        return [found]
    if isinstance(found, LoadReport):
        seen.brokers[found.broker] = None
    return [event_row(event, key) for event in engine.fold(found, store)]


def is_published(one: Unread, until: Mapping[int, int]) -> bool:
    """Whether what follows from a record is published; during a warm start it is not."""
    return one.offset >= until.get(one.partition, 0)


def newest_accepted_ms(brokers: Iterable[str], store: StateStore) -> int | None:
    """Time of the newest report that the engine has accepted from these brokers."""
    states = [state for broker in brokers if (state := store.get_broker(broker)) is not None]
    newest = max(map(newest_report_ms, states), default=-1)
    return None if newest < 0 else newest


def by_cluster(records: Iterable[Unread]) -> Mapping[str, list[Unread]]:
    """Clusters in the order of their names, each with its records in topic order, whatever the
    order of the rows.

    If a cluster's records are in several partitions, these are merged by time. The order within a
    partition never changes, so a clock that jumps back cannot reorder a topic of keyed records (one
    partition per cluster).
    """
    found: defaultdict[str, list[Unread]] = defaultdict(list)
    for one in records:
        found[one.cluster].append(one)
    return {cluster: _in_order(found[cluster]) for cluster in sorted(found)}


def _in_order(some: list[Unread]) -> list[Unread]:
    some.sort(key=itemgetter(0, 1))
    newest: dict[int, int] = {}
    times: list[int] = []
    for one in some:
        newest[one.partition] = max(newest.get(one.partition, 0), one.ts)
        times.append(newest[one.partition])
    return [
        some[i] for i in sorted(range(len(some)), key=times.__getitem__)
    ]  # stable: same time, then partition, then offset

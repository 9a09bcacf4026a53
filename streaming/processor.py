"""Runs the engine inside Spark's transformWithState: folds the records of a shard's clusters in
topic order over state that Spark stores and checkpoints.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from sinks.graceful_stop import rare_collections, wall_clock_ms
from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.wire.event_to_topic_rows import OutputRow, event_row, over_quota_row
from sinks.wire.signing_keys import SigningKey, SigningSettings, signing_key
from strategies.cluster.cluster_state import StateStore
from strategies.cluster.model import LoadReport, TelemetryRecord
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import drop_unseen_moves
from strategies.fold.time_jumps_and_forgetting import forget_after_ms
from streaming.outputs.counts_of_micro_batch import FACTS, BatchTally
from streaming.pack_and_decode_records import ReadRows, Unread
from streaming.state.forget_clusters import ForgetPolicy
from streaming.state.store import STATE_KEY, STATE_VALUE, Rows, ShardStore, StoreCache
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
        stores: StoreCache | None = None,
        *,
        metrics: MetricsSettings = METRICS_OFF,
        forget_policy: ForgetPolicy = ForgetPolicy(),
        until: Mapping[int, int] = PUBLISH_ALL,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`stores`: replaces the process-wide cache of stores; only within one process. `metrics`:
        if they are on, each call adds one row of facts. `forget_policy`: of clusters that vanish;
        its `after_ms` comes from the engine's settings. `until`: partition → offset of the first
        record whose rows are published; in other partitions, the rows of all records are.
        `clock_ms`: this machine's clock (ms since the epoch).
        """
        self._settings = settings
        self._signing = signing
        self._read_rows = read_rows
        self._stores = stores
        self._metrics = metrics
        self._forget_policy = replace(forget_policy, after_ms=forget_after_ms(settings.round))
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
            output = self._fold_shard(key[0], rows)
        if self._stores is None:
            _FREEZER.after_batch()
        return iter(output)

    def _fold_shard(self, number: int, rows: Iterator[Any]) -> list[Row]:
        tally = BatchTally(per_broker=self._metrics.per_broker) if self._metrics.listen else None
        stores, state = _KEPT if self._stores is None else self._stores, Rows(self._state)
        shard = stores.open(number, state)
        rows_out = [
            row
            for cluster, records in by_cluster(self._read_rows(rows)).items()
            for row in self._fold_cluster(cluster, records, shard, tally)
        ]
        vanished = shard.drop_vanished(self._clock_ms(), self._forget_policy)
        shard.flush(state)
        stores.keep(number, shard)
        output = [
            Row(kind=row.kind, key=row.key, value=row.value, seq=seq)
            for seq, row in enumerate(rows_out)
        ]
        if tally is not None:
            tally.vanished(vanished)
            output.append(Row(kind=FACTS, key="", value=tally.value(), seq=len(output)))
        return output

    def _fold_cluster(
        self,
        cluster: str,
        records: Sequence[Unread],
        shard: ShardStore,
        tally: BatchTally | None,
    ) -> list[OutputRow]:
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
    """Brokers whose reports `fold` has decoded, and the number of records over the quota."""

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
    """Yields the output rows of a cluster's records, in order; commands are signed if there is a
    key. `seen`: filled with notes for the facts. `until`: see ClusterProcessor.
    """
    seen = FoldNotes() if seen is None else seen
    for record in records:
        published = is_published(record, until)
        if published and engine.drops_unconfirmed_moves:
            end_of_window(store)
        rows, admitted = list[OutputRow](), True
        if record.has_quota:
            admitted, earlier = engine.admits(record.arrival, store)
            if earlier is not None:
                rows.append(over_quota_row(earlier, record.cluster))
        if admitted:
            rows += _rows(engine, record.decoded(), store, key, seen)
        else:
            seen.set_aside += 1
        if published:
            yield from rows
        elif engine.drops_unconfirmed_moves and any(row.kind == "commands" for row in rows):
            store.put_cluster(replace(store.get_cluster(), dropped=True))


def end_of_window(store: StateStore) -> None:
    """Drops the moves of a warm start that neither an outcome nor a report shows, before the first
    published record.
    """
    state = store.get_cluster()
    if state.dropped:
        store.put_cluster(drop_unseen_moves(state))


def _rows(
    engine: Engine,
    decoded: TelemetryRecord | OutputRow,
    store: StateStore,
    key: SigningKey | None,
    seen: FoldNotes,
) -> list[OutputRow]:
    if isinstance(decoded, OutputRow):
        return [decoded]
    if isinstance(decoded, LoadReport):
        seen.brokers[decoded.broker] = None
    return [event_row(event, key) for event in engine.fold(decoded, store)]


def is_published(record: Unread, until: Mapping[int, int]) -> bool:
    """True if the rows of a record are published; during a warm start they are not."""
    return record.offset >= until.get(record.partition, 0)


def newest_accepted_ms(brokers: Iterable[str], store: StateStore) -> int | None:
    """Returns the time of the newest report that the engine has accepted from these brokers; None
    without one.
    """
    states = [state for broker in brokers if (state := store.get_broker(broker)) is not None]
    newest = max((state.newest_report_ms for state in states), default=-1)
    return None if newest < 0 else newest


def by_cluster(records: Iterable[Unread]) -> Mapping[str, list[Unread]]:
    """Returns the clusters in the order of their names, each with its records in topic order,
    whatever the order of the rows.

    If a cluster's records are in several partitions, these are merged by time. The order within a
    partition never changes, so a clock that jumps back cannot reorder a topic of keyed records (one
    partition per cluster).
    """
    clusters: defaultdict[str, list[Unread]] = defaultdict(list)
    for record in records:
        clusters[record.cluster].append(record)
    return {cluster: _in_order(clusters[cluster]) for cluster in sorted(clusters)}


def _in_order(records: list[Unread]) -> list[Unread]:
    records.sort(key=itemgetter(0, 1))
    newest: dict[int, int] = {}
    times: list[int] = []
    for record in records:
        newest[record.partition] = max(newest.get(record.partition, 0), record.ts)
        times.append(newest[record.partition])
    return [
        records[i] for i in sorted(range(len(records)), key=times.__getitem__)
    ]  # stable: same time, then partition, then offset

"""The state of every cluster in a checkpoint, as Spark's state reader finds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streaming.checkpoint.guard import SPARK_LOG
from streaming.session import start_session, stop_session
from streaming.settings import JobSettings
from streaming.state.cluster_bytes import to_bytes
from streaming.state.rows import HEAD, TABLES, row_name, unpack_head
from streaming.state.shards import shard_of
from streaming.state.store import Row, Rows, ShardStore, SparkStore


@dataclass
class MemoryVariable:
    """A state variable in memory: the rows of one shard, by name."""

    rows: dict[Row, Row] = field(default_factory=dict)

    def getValue(self, key: Row) -> Row | None:
        """See MapVariable."""
        return self.rows.get(key)

    def updateValue(self, key: Row, value: Row) -> None:
        """See MapVariable."""
        self.rows[key] = value

    def removeKey(self, key: Row) -> None:
        """See MapVariable."""
        self.rows.pop(key, None)


#: Shard → its rows.
Shards = Mapping[int, MemoryVariable]


@contextmanager
def spark_for(folder: Path, session: SparkSession | None) -> Iterator[SparkSession]:
    """The session, or one of its own that logs to the checkpoint. Raises SparkStartError."""
    if session is not None:
        yield session
        return
    ours = start_session(JobSettings(), folder / SPARK_LOG, short=True)
    try:
        yield ours
    finally:
        stop_session(ours)


def read_shards(spark: SparkSession, folder: Path, *, tables: bool = True) -> Shards:
    """The rows as of the last committed micro-batch. `tables`: also those of bundles, which are
    most of them. Raises PySparkException.
    """
    # Accessing `streams` starts Spark's state coordinator, which the state reader needs but does
    # not start itself.
    _ = spark.streams.active
    state = spark.read.format("statestore").option("path", f"file://{folder}")
    rows = state.option("stateVarName", "state").load()
    if not tables:
        rows = rows.where(~F.col("user_map_key.name").startswith(f"{TABLES}/"))
    found: defaultdict[int, MemoryVariable] = defaultdict(MemoryVariable)
    for row in rows.toLocalIterator():
        found[row.key.shard].updateValue(
            (row.user_map_key.name,), (bytes(row.user_map_value.packed),)
        )
    return found


def clusters_of(shards: Shards, *, tables: bool = True) -> dict[str, SparkStore]:
    """The state of every cluster. `tables`: see `read_shards`. Raises StateVersionError for rows
    that are not whole.
    """
    found: dict[str, SparkStore] = {}
    for variable in shards.values():
        (packed,) = variable.rows[row_name(HEAD),]
        head = unpack_head(packed)
        if not tables:
            head = head._replace(tables=())
        store = ShardStore()
        store.follow(head, Rows(variable))
        found |= {name: store.cluster(name) for name in store.clusters()}
    return found


def distributed(clusters: Mapping[str, SparkStore], partitions: int) -> Shards:
    """The rows of the same clusters in the shards of another number of partitions."""
    stores: defaultdict[int, ShardStore] = defaultdict(ShardStore)
    for name, store in clusters.items():
        store.copy_to(stores[shard_of(name, partitions)].cluster(name))
    found = {shard: MemoryVariable() for shard in stores}
    for shard, written in stores.items():
        written.flush(Rows(found[shard]))
    return found


def content(clusters: Mapping[str, SparkStore]) -> dict[str, object]:
    """All that is to be equal: every cluster's bytes, brokers and tables."""
    return {
        name: (
            to_bytes(store.get_cluster()),
            {broker.broker: broker for broker in store.brokers()},
            store.tables(),
        )
        for name, store in clusters.items()
    }

"""The engine's StateStore on Spark's state: a shard is completely in memory during a micro-batch,
which then writes the changes of all its clusters back once.
"""

from collections.abc import Mapping
from secrets import randbits
from typing import Any

from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from strategies.cluster.cluster_state import BrokerState, ClusterState, InMemoryStore
from strategies.cluster.store_changes import StoreChanges
from strategies.errors import StateVersionError
from strategies.fold.time_jumps_and_forgetting import can_be_forgotten, forget
from streaming.state.compacted_log import CompactedLog
from streaming.state.forget_clusters import ForgetPolicy, Watch, watched
from streaming.state.state_to_bytes import (
    BROKERS,
    CLUSTERS,
    HEAD,
    TABLES,
    Head,
    changed_bytes,
    from_bytes,
    pack,
    row_name,
    unpack_brokers,
    unpack_bytes,
    unpack_head,
)

STATE_KEY = StructType([StructField("name", StringType())])
STATE_VALUE = StructType([StructField("packed", BinaryType())])
Row = tuple[Any, ...]

#: Maximum number of brokers, and of bytes of tables or clusters, in one row of state: Java copies a
#: row several times, and collects larger arrays only with the whole heap.
_BROKERS_PER_ENTRY = 2_000
_BYTES_PER_ENTRY = 3 * 2**18
_ENTRY_BITS = 63


class Rows:
    """A shard's rows in Spark's state variable (STATE_KEY → STATE_VALUE)."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, part: str, entry: int = 0) -> bytes | None:
        row = self._state.getValue((row_name(part, entry),))
        return None if row is None else bytes(row[0])

    def there(self, part: str, entry: int) -> bytes:
        """Raises StateVersionError for an entry that is missing."""
        packed = self.get(part, entry)
        if packed is None:
            raise StateVersionError(
                f"the state is not whole (entry {entry} of its {part} is missing): "
                "restore the checkpoint from a copy"
            )
        return packed

    def put(self, packed: bytes, part: str, entry: int = 0) -> None:
        self._state.updateValue((row_name(part, entry),), (packed,))

    def remove(self, part: str, entry: int) -> None:
        self._state.removeKey((row_name(part, entry),))


def _new_entry() -> int:
    """Returns a unique number for an entry. A number never gets another content, so a known entry
    need not be read again, even after failures.
    """
    return randbits(_ENTRY_BITS)


class SparkStore(StoreChanges):
    """The state of one cluster: its part of a shard, and its own changes, which stay
    in it until the shard's `flush`.
    """

    def __init__(
        self, cluster: ClusterState, brokers: dict[str, BrokerState], tables: dict[str, bytes]
    ) -> None:
        super().__init__(InMemoryStore(brokers, tables, cluster))
        self._tables = tables

    def tables(self) -> dict[str, bytes]:
        """Returns all tables by their names, those of owned bundles too."""
        newest = {**self._tables, **self.changed_tables}
        return {name: table for name, table in newest.items() if table is not None}

    def forget(self) -> None:
        """Drops what no later record of the cluster depends on, if it is away for long enough."""
        self.put_cluster(forget(self._cluster, self))
        self.changed_tables |= dict.fromkeys(self._tables)

    def copy_to(self, empty: "SparkStore") -> None:
        """Puts the whole state into the store of a cluster that has none."""
        for broker in self.brokers():
            empty.put_broker(broker)
        empty.changed_tables |= self.tables()
        empty.put_cluster(self._cluster)


class ShardStore:
    """The state of all clusters of one shard."""

    def __init__(self) -> None:
        self._clusters = CompactedLog[bytes](len, _BYTES_PER_ENTRY, _new_entry)
        self._brokers = CompactedLog[BrokerState](bool, _BROKERS_PER_ENTRY, _new_entry)  # each is 1
        self._tables = CompactedLog[bytes](len, _BYTES_PER_ENTRY, _new_entry)
        # Cluster → the meaning of its bytes, which is found once.
        self._read: dict[str, ClusterState] = {}
        self._open: dict[str, SparkStore] = {}
        self._watch = Watch()

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the shard in bytes."""
        return self._tables.total_weight + self._clusters.total_weight

    def clusters(self) -> list[str]:
        """Names of the clusters that have a state, as of the last `flush`."""
        return list(self._clusters.values)

    def cluster(self, name: str) -> SparkStore:
        """Returns the store of one cluster; the same one until the next `flush`. Raises
        StateVersionError.
        """
        if name not in self._open:
            self._open[name] = SparkStore(
                self._state(name), self._brokers.of(name), self._tables.of(name)
            )
        return self._open[name]

    def _state(self, name: str) -> ClusterState:
        fields = self._clusters.of(name)
        if not fields:  # a made-up name leaves nothing
            return ClusterState()
        if name not in self._read:
            self._read[name] = from_bytes(fields)
        return self._read[name]

    def drop_vanished(self, now_ms: int, forget_policy: ForgetPolicy) -> list[str]:
        """Drops, after the records of a micro-batch, what can be dropped of vanished clusters.
        Returns their names. `now_ms`: by this machine's clock, since the epoch.
        """
        clocks = [store.get_cluster().clock for store in self._open.values()]
        times = [clock.now_ms for clock in clocks if clock is not None]
        if not times:
            return []
        self._watch, line_ms = watched(self._watch, max(times), now_ms, forget_policy)
        if line_ms is None:
            return []
        silent = [name for name in self.clusters() if name not in self._open]
        vanished = [name for name in silent if can_be_forgotten(self._state(name), line_ms)]
        for name in vanished:
            self.cluster(name).forget()
        return vanished

    def flush(self, rows: Rows) -> None:
        """Writes the changes to Spark's state; they are durable once the micro-batch commits."""
        stores, self._open = self._open, {}
        fields = {
            name: changed_bytes(store.before, store.get_cluster(), self._clusters.of(name))
            for name, store in stores.items()
        }
        brokers = {name: store.changed_brokers for name, store in stores.items()}
        tables = {name: store.changed_tables for name, store in stores.items()}
        if not any(map(any, (fields.values(), brokers.values(), tables.values()))):
            return
        _write(self._clusters, fields, rows, CLUSTERS)
        for name, store in stores.items():
            if name in self._clusters.values:
                self._read[name] = store.get_cluster()
            else:
                self._read.pop(name, None)
        _write(self._brokers, brokers, rows, BROKERS)
        _write(self._tables, tables, rows, TABLES)
        head = Head(
            tuple(self._clusters.entries),
            tuple(self._brokers.entries),
            tuple(self._tables.entries),
            self._watch,
        )
        rows.put(pack(head), HEAD)

    def follow(self, head: Head, rows: Rows) -> bool:
        """Updates the store from Spark's rows, reading unknown entries only; False if the store is
        not an earlier state of them.

        Raises StateVersionError.
        """
        self._watch = head.watch
        return (
            self._clusters.follow(head.clusters, lambda entry: self._fields(entry, rows))
            and self._brokers.follow(
                head.brokers, lambda entry: unpack_brokers(rows.there(BROKERS, entry))
            )
            and self._tables.follow(
                head.tables, lambda entry: unpack_bytes(rows.there(TABLES, entry))
            )
        )

    def _fields(self, entry: int, rows: Rows) -> dict[str, dict[str, bytes | None]]:
        fields = unpack_bytes(rows.there(CLUSTERS, entry))
        for cluster in fields:
            self._read.pop(cluster, None)
        return fields


class StoreCache:
    """Keeps the shards of a process from one micro-batch to the next, so that the process does not
    read its own entries again.

    Spark's state is authoritative: the cache reads Spark's list of entries every time, and all
    entries that it does not know. The list differs after a failed task, a repeated batch, a
    restart, or a batch of another process. A store is removed from the cache before it changes and
    added again after it is written, so the cache never holds a partly changed store.
    """

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: of all shards together. The newest one stays even if it alone is larger: it
        is completely in memory in every micro-batch anyway. With 0 none stays.
        """
        self._most_bytes = most_bytes
        self._stores: dict[int, ShardStore] = {}
        self._sizes: dict[int, int] = {}
        self._bytes = 0

    def open(self, shard: int, rows: Rows) -> ShardStore:
        """Returns the store of a shard, up to date with Spark's state. Raises StateVersionError."""
        cached = self._take(shard)
        packed = rows.get(HEAD)
        if packed is None:
            return ShardStore()
        head = unpack_head(packed)
        if cached is not None and cached.follow(head, rows):
            return cached
        store = ShardStore()
        store.follow(head, rows)
        return store

    def keep(self, shard: int, store: ShardStore) -> None:
        """Adds a store after `flush`. If all stores together are too large, removes the least
        recently used ones.
        """
        self._take(shard)
        # The size of a store that is kept does not change, so the total need not be counted again.
        self._stores[shard], self._sizes[shard] = store, store.size_bytes
        self._bytes += self._sizes[shard]
        least = 1 if self._most_bytes else 0
        while len(self._stores) > least and self._bytes > self._most_bytes:
            self._take(next(iter(self._stores)))

    def _take(self, shard: int) -> ShardStore | None:
        self._bytes -= self._sizes.pop(shard, 0)
        return self._stores.pop(shard, None)


def _write(
    log: CompactedLog[Any], changed: Mapping[str, Mapping[str, Any]], rows: Rows, part: str
) -> None:
    fresh, old = log.write(changed)
    for entry, values in fresh.items():
        rows.put(pack(values), part, entry)
    for entry in old:
        rows.remove(part, entry)

"""The engine's StateStore on Spark's state: completely in memory during a micro-batch, then writes
the changes back once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from secrets import randbits
from typing import Any, Protocol

from strategies.errors import StateVersionError
from strategies.state import ClusterState, from_bytes, to_bytes
from strategies.store import BrokerState
from streaming.state.compacted_log import CompactedLog
from streaming.state.rows import (
    BROKERS,
    HEAD,
    TABLES,
    Head,
    pack,
    row_name,
    unpack_brokers,
    unpack_head,
    unpack_tables,
)

Row = tuple[Any, ...]

#: Maximum number of brokers, and of bytes of tables, in one row of state, far below the limits of
#: Java.
_BROKERS_PER_ENTRY = 2_000
_BYTES_PER_ENTRY = 4 * 2**20
_ENTRY_BITS = 63


class MapVariable(Protocol):
    """The part of Spark's MapState that is used here."""

    def getValue(self, key: Row) -> Row | None: ...
    def updateValue(self, key: Row, value: Row) -> None: ...
    def removeKey(self, key: Row) -> None: ...


class Rows:
    """A cluster's rows in Spark's state variable (STATE_KEY → STATE_VALUE)."""

    def __init__(self, state: MapVariable, cluster: str) -> None:
        self._state, self._cluster = state, cluster

    def get(self, part: str, entry: int = 0) -> bytes | None:
        row = self._state.getValue((row_name(part, self._cluster, entry),))
        return None if row is None else bytes(row[0])

    def there(self, part: str, entry: int) -> bytes:
        """Raises StateVersionError for an entry that is missing."""
        packed = self.get(part, entry)
        if packed is None:
            raise StateVersionError(
                f"the state of cluster {self._cluster} is not whole (entry {entry} of its "
                f"{part} is missing): "
                "restore the checkpoint from a copy"
            )
        return packed

    def put(self, packed: bytes, part: str, entry: int = 0) -> None:
        self._state.updateValue((row_name(part, self._cluster, entry),), (packed,))

    def remove(self, part: str, entry: int) -> None:
        self._state.removeKey((row_name(part, self._cluster, entry),))


def _new_entry() -> int:
    """A unique number for an entry. A number never gets another content, so a known entry need not
    be read again, even after failures.
    """
    return randbits(_ENTRY_BITS)


def _owned(broker: str) -> str:
    """The name of a broker's owned bundles among the tables; no name of a broker has a slash."""
    return f"{broker}/owned"


class SparkStore:
    """The state of one cluster. Nothing reaches Spark before `flush`."""

    def __init__(self) -> None:
        self._cluster = self._written_cluster = ClusterState()
        self._brokers = CompactedLog[BrokerState](lambda _: 1, _BROKERS_PER_ENTRY, _new_entry)
        self._tables = CompactedLog[bytes](len, _BYTES_PER_ENTRY, _new_entry)
        self._changed_brokers: dict[str, BrokerState | None] = {}
        self._changed_tables: dict[str, bytes | None] = {}

    @property
    def table_bytes(self) -> int:
        """Approximate memory of the store in bytes."""
        return self._tables.total_weight

    def get_broker(self, broker: str) -> BrokerState | None:
        if broker in self._changed_brokers:
            return self._changed_brokers[broker]
        return self._brokers.values.get(broker)

    def put_broker(self, state: BrokerState) -> None:
        if state != self.get_broker(state.broker):
            self._changed_brokers[state.broker] = state

    def remove_broker(self, broker: str) -> None:
        self._changed_brokers[broker] = None
        self._changed_tables[broker] = None

    def brokers(self) -> Iterator[BrokerState]:
        return iter(
            [
                state
                for state in {**self._brokers.values, **self._changed_brokers}.values()
                if state is not None
            ]
        )

    def get_table(self, broker: str) -> bytes | None:
        if broker in self._changed_tables:
            return self._changed_tables[broker]
        return self._tables.values.get(broker)

    def put_table(self, broker: str, table: bytes) -> None:
        self._changed_tables[broker] = table

    def get_owned(self, broker: str) -> bytes | None:
        return self.get_table(_owned(broker))

    def put_owned(self, broker: str, owned: bytes) -> None:
        self.put_table(_owned(broker), owned)

    def remove_owned(self, broker: str) -> None:
        if self.get_owned(broker) is not None:
            self._changed_tables[_owned(broker)] = None

    def get_cluster(self) -> ClusterState:
        return self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state

    def flush(self, rows: Rows) -> None:
        """Writes the changes to Spark's state; they are durable once the micro-batch commits."""
        if not (
            self._changed_brokers or self._changed_tables or self._cluster != self._written_cluster
        ):
            return
        _write(self._brokers, self._changed_brokers, rows, BROKERS)
        _write(self._tables, self._changed_tables, rows, TABLES)
        rows.put(
            pack(
                Head(
                    to_bytes(self._cluster),
                    tuple(self._brokers.entries),
                    tuple(self._tables.entries),
                )
            ),
            HEAD,
        )
        self._written_cluster, self._changed_brokers, self._changed_tables = self._cluster, {}, {}

    def follow(self, head: Head, rows: Rows) -> bool:
        """Updates the store from Spark's rows, reading unknown entries only; False if the store is
        not an earlier state of them.

        Raises StateVersionError.
        """
        self._cluster = self._written_cluster = from_bytes(head.cluster)
        return self._brokers.follow(
            head.broker_entries, lambda entry: unpack_brokers(rows.there(BROKERS, entry))
        ) and self._tables.follow(
            head.table_entries, lambda entry: unpack_tables(rows.there(TABLES, entry))
        )


class StoreCache:
    """Keeps the stores of a process from one micro-batch to the next, so that the process does not
    read its own entries again.

    Spark's state is authoritative: the cache reads Spark's list of entries every time, and all
    entries that it does not know. The list differs after a failed task, a repeated batch, a
    restart, or a batch of another process. A store is removed from the cache before it changes and
    added again after it is written, so the cache never holds a partly changed store.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._stores: dict[str, SparkStore] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def open(self, cluster: str, rows: Rows) -> SparkStore:
        """The store of a cluster, up to date with Spark's state. Raises StateVersionError."""
        kept = self._take(cluster)
        packed = rows.get(HEAD)
        if packed is None:
            return SparkStore()
        head = unpack_head(packed)
        if kept is not None and kept.follow(head, rows):
            return kept
        store = SparkStore()
        store.follow(head, rows)
        return store

    def keep(self, cluster: str, store: SparkStore) -> None:
        """Adds a store after `flush`. If all stores together are too large, removes the least
        recently used ones.
        """
        self._take(cluster)
        # The size of a store that is kept does not change, so the total is never counted anew.
        self._stores[cluster], self._sizes[cluster] = store, store.table_bytes
        self._bytes += self._sizes[cluster]
        while self._bytes > self._most_bytes:
            self._take(next(iter(self._stores)))

    def _take(self, cluster: str) -> SparkStore | None:
        self._bytes -= self._sizes.pop(cluster, 0)
        return self._stores.pop(cluster, None)


def _write(log: CompactedLog[Any], changed: Mapping[str, Any], rows: Rows, part: str) -> None:
    fresh, old = log.write(changed)
    for entry, values in fresh.items():
        rows.put(pack(values), part, entry)
    for entry in old:
        rows.remove(part, entry)

"""A cluster's state in Spark as the engine's StateStore: whole in memory during a micro-batch, written back once, only what changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from strategies.errors import StateVersionError
from strategies.state import ClusterState, from_bytes, to_bytes
from strategies.store import BrokerState
from streaming.columns import PARTS, brokers_of, brokers_row, part_of, row_of
from streaming.journal import Journal

Row = tuple[Any, ...]

#: So that no row of state comes near the limits of Java: brokers in one, bytes of tables in one.
_BROKERS_PER_ENTRY = 2_000
_BYTES_PER_ENTRY = 4 * 2**20
_TABLES = msgspec.msgpack.Decoder(dict[str, bytes | None])


class MapVariable(Protocol):
    """The part of Spark's MapState that is used here."""

    def getValue(self, key: Row) -> Row | None: ...
    def updateValue(self, key: Row, value: Row) -> None: ...
    def removeKey(self, key: Row) -> None: ...


class Part:
    """The rows of one part of the state. Not a variable of its own, whose code Spark would make anew in every micro-batch."""

    def __init__(self, state: MapVariable, part: str) -> None:
        self._state, self._part = state, part

    def get(self, cluster: str, entry: int = 0) -> Row | None:
        """Columns of the part (`PARTS`)."""
        row = self._state.getValue((cluster, self._part, entry))
        return None if row is None else part_of(self._part, tuple(row))

    def put(self, columns: Row, cluster: str, entry: int = 0) -> None:
        self._state.updateValue((cluster, self._part, entry), row_of(self._part, columns))

    def remove(self, cluster: str, entry: int) -> None:
        self._state.removeKey((cluster, self._part, entry))


class Variables:
    """Spark's side, by part."""

    def __init__(self, state: MapVariable) -> None:
        """`state`: STATE_KEY → STATE_VALUE."""
        self.clusters, self.brokers, self.tables = (Part(state, part) for part in PARTS)


class SparkStore:
    """The state of one cluster, equal to Spark's as long as the token there is this `token`. Nothing reaches Spark before `flush`."""

    def __init__(self, cluster: str) -> None:
        self._name = cluster
        self._token = ""
        self._cluster = self._written_cluster = ClusterState()
        self._brokers = Journal[BrokerState](lambda _: 1, _BROKERS_PER_ENTRY)
        self._tables = Journal[bytes](len, _BYTES_PER_ENTRY)
        self._changed_brokers: dict[str, BrokerState | None] = {}
        self._changed_tables: dict[str, bytes | None] = {}

    @property
    def token(self) -> str:
        """Names what is in Spark's state: no two contents ever had the same; empty for a cluster that was never written."""
        return self._token

    @property
    def table_bytes(self) -> int:
        """What the store needs of memory, nearly."""
        return sum(map(len, self._tables.values.values()))

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
        return iter([state for state in {**self._brokers.values, **self._changed_brokers}.values() if state is not None])

    def get_table(self, broker: str) -> bytes | None:
        if broker in self._changed_tables:
            return self._changed_tables[broker]
        return self._tables.values.get(broker)

    def put_table(self, broker: str, table: bytes) -> None:
        self._changed_tables[broker] = table

    def get_cluster(self) -> ClusterState:
        return self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state

    def flush(self, variables: Variables) -> None:
        """Writes what changed to Spark's state, under a new token; the micro-batch that commits makes it last."""
        if not (self._changed_brokers or self._changed_tables or self._cluster != self._written_cluster):
            return
        fresh_brokers, old_brokers = self._brokers.write(self._changed_brokers)
        fresh_tables, old_tables = self._tables.write(self._changed_tables)
        for number, brokers in fresh_brokers.items():
            variables.brokers.put(brokers_row(brokers), self._name, number)
        for number, tables in fresh_tables.items():
            variables.tables.put((msgspec.msgpack.encode(tables),), self._name, number)
        for number in old_brokers:
            variables.brokers.remove(self._name, number)
        for number in old_tables:
            variables.tables.remove(self._name, number)
        self._token, self._written_cluster = uuid4().hex, self._cluster
        entries = (self._brokers.entries, self._tables.entries)
        variables.clusters.put((to_bytes(self._cluster), self._token, *entries), self._name)
        self._changed_brokers, self._changed_tables = {}, {}

    def read(self, row: Row, variables: Variables) -> None:
        """Takes in what Spark has of the cluster. Raises StateVersionError."""
        packed, self._token, brokers, tables = row
        self._cluster = self._written_cluster = from_bytes(bytes(packed))
        for number in brokers:
            self._brokers.read(number, brokers_of(_there(variables.brokers, self._name, number)))
        for number in tables:
            self._tables.read(number, _TABLES.decode(_there(variables.tables, self._name, number)[0]))


class StoreCache:
    """Stores of a process from one micro-batch to the next, so that it need not read again what it has written itself.

    A store counts only while its token is the one in Spark's state, which changes with every write: after a task that failed, a batch
    that is repeated, a restart, or a turn of another process, the tokens differ and the state is read. A store is taken out before it
    is changed and comes back when it is written, so that none is ever half changed.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._stores: dict[str, SparkStore] = {}

    def open(self, cluster: str, variables: Variables) -> SparkStore:
        """The store of a cluster, as it stands in Spark's state. Raises StateVersionError."""
        kept = self._stores.pop(cluster, None)
        row = variables.clusters.get(cluster)
        if row is None:
            return SparkStore(cluster)
        if kept is not None and kept.token == row[1]:
            return kept
        store = SparkStore(cluster)
        store.read(row, variables)
        return store

    def keep(self, cluster: str, store: SparkStore) -> None:
        """After `flush`. The stores that were not used for longest go when all together are too large."""
        self._stores[cluster] = store
        sizes = {name: store.table_bytes for name, store in self._stores.items()}
        while sum(sizes.values()) > self._most_bytes:
            oldest = next(iter(sizes))
            del sizes[oldest], self._stores[oldest]


def _there(part: Part, cluster: str, entry: int) -> Row:
    row = part.get(cluster, entry)
    if row is None:
        raise StateVersionError(
            f"the state of cluster {cluster} is not whole (entry {entry} is missing): bring the checkpoint back from a copy"
        )
    return row

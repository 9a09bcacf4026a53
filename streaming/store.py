"""A cluster's state in Spark as the engine's StateStore: whole in memory during a micro-batch, written back once, only what changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from strategies.errors import StateVersionError
from strategies.state import ClusterState, from_bytes, to_bytes
from strategies.store import BrokerState
from streaming.columns import brokers_of, brokers_row
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


@dataclass(frozen=True, slots=True)
class Variables:
    """Spark's side. `clusters`: CLUSTER_KEY → CLUSTER_VALUE; `brokers`, `tables`: journals, ENTRY_KEY → BROKERS_VALUE, TABLES_VALUE."""

    clusters: MapVariable
    brokers: MapVariable
    tables: MapVariable


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
            variables.brokers.updateValue((self._name, number), brokers_row(brokers))
        for number, tables in fresh_tables.items():
            variables.tables.updateValue((self._name, number), (msgspec.msgpack.encode(tables),))
        for number in old_brokers:
            variables.brokers.removeKey((self._name, number))
        for number in old_tables:
            variables.tables.removeKey((self._name, number))
        self._token, self._written_cluster = uuid4().hex, self._cluster
        entries = (self._brokers.entries, self._tables.entries)
        variables.clusters.updateValue((self._name,), (to_bytes(self._cluster), self._token, *entries))
        self._changed_brokers, self._changed_tables = {}, {}

    def read(self, row: Row, variables: Variables) -> None:
        """Takes in what Spark has of the cluster. Raises StateVersionError."""
        packed, self._token, brokers, tables = row
        self._cluster = self._written_cluster = from_bytes(bytes(packed))
        for number in brokers:
            self._brokers.read(number, brokers_of(_there(variables.brokers, (self._name, number))))
        for number in tables:
            self._tables.read(number, _TABLES.decode(_there(variables.tables, (self._name, number))[0]))


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
        row = variables.clusters.getValue((cluster,))
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


def _there(variable: MapVariable, key: Row) -> Row:
    row = variable.getValue(key)
    if row is None:
        raise StateVersionError(
            f"the state of cluster {key[0]} is not whole (entry {key[1]} is missing): bring the checkpoint back from a copy"
        )
    return tuple(row)

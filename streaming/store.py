"""A cluster's state in Spark as the engine's StateStore: read once per micro-batch, written back once, only what changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from strategies.state import ClusterState, from_bytes, to_bytes
from strategies.store import BrokerState
from streaming.columns import broker_row, broker_state

Row = tuple[Any, ...]


class MapVariable(Protocol):
    """The part of Spark's MapState that is used here."""

    def getValue(self, key: Row) -> Row | None: ...
    def updateValue(self, key: Row, value: Row) -> None: ...
    def removeKey(self, key: Row) -> None: ...
    def iterator(self) -> Iterator[tuple[Row, Row]]: ...


class ValueVariable(Protocol):
    """The part of Spark's ValueState that is used here."""

    def get(self) -> Row | None: ...
    def update(self, newValue: Row) -> None: ...


class SparkStore:
    """The state of the cluster whose rows are being handled; valid for one micro-batch. Nothing reaches Spark before `flush`."""

    def __init__(self, brokers: MapVariable, tables: MapVariable, cluster: ValueVariable) -> None:
        self._broker_rows, self._table_rows, self._cluster_row = brokers, tables, cluster
        # What is known of Spark's side (None: nothing there), and what the fold made of it.
        self._seen_brokers: dict[str, BrokerState | None] = {}
        self._seen_all_brokers = False
        self._brokers: dict[str, BrokerState | None] = {}
        self._tables: dict[str, bytes | None] = {}
        self._changed_tables: set[str] = set()
        self._seen_cluster: ClusterState | None = None
        self._cluster: ClusterState | None = None

    def get_broker(self, broker: str) -> BrokerState | None:
        if broker in self._brokers:
            return self._brokers[broker]
        if broker not in self._seen_brokers:
            row = None if self._seen_all_brokers else self._broker_rows.getValue((broker,))
            self._seen_brokers[broker] = None if row is None else broker_state(broker, tuple(row))
        return self._seen_brokers[broker]

    def put_broker(self, state: BrokerState) -> None:
        self._brokers[state.broker] = state

    def remove_broker(self, broker: str) -> None:
        self._brokers[broker] = None
        self._tables[broker] = None
        self._changed_tables.add(broker)

    def brokers(self) -> Iterator[BrokerState]:
        if not self._seen_all_brokers:
            for (broker,), row in self._broker_rows.iterator():
                self._seen_brokers.setdefault(broker, broker_state(broker, tuple(row)))
            self._seen_all_brokers = True
        return iter([state for state in {**self._seen_brokers, **self._brokers}.values() if state is not None])

    def get_table(self, broker: str) -> bytes | None:
        if broker not in self._tables:
            row = self._table_rows.getValue((broker,))
            self._tables[broker] = None if row is None else bytes(row[0])
        return self._tables[broker]

    def put_table(self, broker: str, table: bytes) -> None:
        self._tables[broker] = table
        self._changed_tables.add(broker)

    def get_cluster(self) -> ClusterState:
        if self._cluster is None:
            row = self._cluster_row.get()
            self._seen_cluster = None if row is None else from_bytes(bytes(row[0]))
            self._cluster = self._seen_cluster or ClusterState()
        return self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state

    def flush(self) -> None:
        """Writes what changed back to Spark's state; the micro-batch that commits makes it last."""
        for broker, state in self._brokers.items():
            self._flush_broker(broker, state)
        for broker in sorted(self._changed_tables):
            table = self._tables[broker]
            if table is None:
                self._table_rows.removeKey((broker,))
            else:
                self._table_rows.updateValue((broker,), (table,))
        if self._cluster is not None and self._cluster != self._seen_cluster:
            self._cluster_row.update((to_bytes(self._cluster),))

    def _flush_broker(self, broker: str, state: BrokerState | None) -> None:
        if state is None:
            self._broker_rows.removeKey((broker,))
        elif state != self._seen_brokers.get(broker):
            self._broker_rows.updateValue((broker,), broker_row(state))

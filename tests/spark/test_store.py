"""The engine's store over Spark's state variables: reads once, writes only what changed, only when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from strategies.model import Figures
from strategies.state import ClusterState, to_bytes
from strategies.store import BrokerState
from streaming.columns import broker_row
from streaming.store import SparkStore

Row = tuple[Any, ...]


@dataclass
class CountingMap:
    """A map state that counts calls."""

    rows: dict[Row, Row] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def getValue(self, key: Row) -> Row | None:
        self.calls.append(f"get {key[0]}")
        return self.rows.get(key)

    def updateValue(self, key: Row, value: Row) -> None:
        self.calls.append(f"update {key[0]}")
        self.rows[key] = value

    def removeKey(self, key: Row) -> None:
        self.calls.append(f"remove {key[0]}")
        self.rows.pop(key, None)

    def iterator(self) -> Iterator[tuple[Row, Row]]:
        self.calls.append("iterate")
        return iter(list(self.rows.items()))


@dataclass
class CountingValue:
    """A value state that counts updates."""

    row: Row | None = None
    updates: int = 0

    def get(self) -> Row | None:
        return self.row

    def update(self, newValue: Row) -> None:
        self.updates += 1
        self.row = newValue


@dataclass
class Variables:
    """The three state variables of one cluster, and the store of the next micro-batch over them."""

    brokers: CountingMap = field(default_factory=CountingMap)
    tables: CountingMap = field(default_factory=CountingMap)
    cluster: CountingValue = field(default_factory=CountingValue)

    def store(self) -> SparkStore:
        self.brokers.calls.clear()
        self.tables.calls.clear()
        return SparkStore(self.brokers, self.tables, self.cluster)


def broker(name: str, order: int = 0) -> BrokerState:
    return BrokerState(name, order, 1, 1, 1, 1, 1, -1, "d", "d", Figures())


def with_brokers(*names: str) -> Variables:
    variables = Variables()
    variables.brokers.rows = {(name,): broker_row(broker(name, order)) for order, name in enumerate(names)}
    variables.tables.rows = {(name,): (name.encode(),) for name in names}
    variables.cluster.row = (to_bytes(ClusterState(round=7)),)
    return variables


def test_a_broker_is_read_once_however_often_it_is_asked_for() -> None:
    variables = with_brokers("b1")
    store = variables.store()
    assert store.get_broker("b1") == store.get_broker("b1") == broker("b1")
    assert store.get_broker("b2") is store.get_broker("b2") is None
    assert variables.brokers.calls == ["get b1", "get b2"]


def test_all_brokers_are_read_once_and_include_what_the_batch_has_changed() -> None:
    variables = with_brokers("b1", "b2", "b3")
    store = variables.store()
    changed = replace(broker("b2", 1), digest="new")
    store.put_broker(changed)
    store.remove_broker("b3")
    store.put_broker(broker("b4", 3))
    assert {state.broker: state.digest for state in store.brokers()} == {"b1": "d", "b2": "new", "b4": "d"}
    assert list(store.brokers()) == list(store.brokers())
    assert store.get_broker("b5") is None
    assert variables.brokers.calls == ["iterate"]


def test_only_what_changed_is_written_and_only_once() -> None:
    variables = with_brokers("b1", "b2")
    store = variables.store()
    for digest in ("x", "y"):
        store.put_broker(replace(broker("b1"), digest=digest))
        store.put_table("b1", digest.encode())
    store.put_broker(next(state for state in store.brokers() if state.broker == "b2"))
    store.put_cluster(ClusterState(round=8))
    assert not [call for call in variables.brokers.calls if call.startswith("update")]
    store.flush()
    assert [call for call in variables.brokers.calls if call.startswith("update")] == ["update b1"]
    assert variables.tables.calls == ["update b1"]
    assert variables.cluster.updates == 1
    assert variables.store().get_cluster() == ClusterState(round=8)


def test_a_batch_that_changes_nothing_writes_nothing() -> None:
    variables = with_brokers("b1")
    store = variables.store()
    store.get_broker("b1")
    store.put_cluster(store.get_cluster())
    store.flush()
    assert variables.brokers.calls == ["get b1"]
    assert variables.cluster.updates == 0


def test_a_removed_broker_takes_its_table_along_and_may_come_back() -> None:
    variables = with_brokers("b1")
    store = variables.store()
    store.remove_broker("b1")
    assert store.get_broker("b1") is None
    assert store.get_table("b1") is None
    store.flush()
    assert (variables.brokers.rows, variables.tables.rows) == ({}, {})
    again = variables.store()
    again.remove_broker("b1")
    again.put_broker(broker("b1", 5))
    again.put_table("b1", b"fresh")
    again.flush()
    assert variables.store().get_broker("b1") == broker("b1", 5)
    assert variables.store().get_table("b1") == b"fresh"


def test_a_cluster_never_seen_starts_empty() -> None:
    assert Variables().store().get_cluster() == ClusterState()

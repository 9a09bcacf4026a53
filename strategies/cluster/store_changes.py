"""Keeps the changes of a cluster's state apart from its store until they are complete: those of one
record, or of one micro-batch.
"""

from collections.abc import Iterator

from strategies.cluster.cluster_state import BrokerState, ClusterState, StateStore


class StoreChanges:
    """Changes over a store, which stays as it was until `apply`."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.before = self._cluster = store.get_cluster()
        #: Name → new value, None for removed ones.
        self.changed_brokers: dict[str, BrokerState | None] = {}
        self.changed_tables: dict[str, bytes | None] = {}

    def apply(self) -> None:
        """Writes the changes to the store."""
        for name, broker in self.changed_brokers.items():
            if broker is None:
                self._store.remove_broker(name)
            else:
                self._store.put_broker(broker)
        for name, table in self.changed_tables.items():
            if table is None:
                self._store.remove_table(name)
            else:
                self._store.put_table(name, table)
        if self._cluster is not self.before:
            self._store.put_cluster(self._cluster)

    def get_broker(self, broker: str) -> BrokerState | None:
        if broker in self.changed_brokers:
            return self.changed_brokers[broker]
        return self._store.get_broker(broker)

    def put_broker(self, state: BrokerState) -> None:
        if state != self.get_broker(state.broker):
            self.changed_brokers[state.broker] = state

    def remove_broker(self, broker: str) -> None:
        self.changed_brokers[broker] = None
        self.changed_tables[broker] = None

    def brokers(self) -> Iterator[BrokerState]:
        before = {broker.broker: broker for broker in self._store.brokers()}
        newest = (before | self.changed_brokers).values()
        return iter([broker for broker in newest if broker is not None])

    def get_table(self, name: str) -> bytes | None:
        if name in self.changed_tables:
            return self.changed_tables[name]
        return self._store.get_table(name)

    def put_table(self, name: str, table: bytes) -> None:
        self.changed_tables[name] = table

    def remove_table(self, name: str) -> None:
        if self.get_table(name) is not None:
            self.changed_tables[name] = None

    def get_cluster(self) -> ClusterState:
        return self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state

"""The store of one cluster's state: a protocol, and the implementation in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from strategies.bundles import TableSummary
from strategies.cluster.cluster_state import ClusterState
from strategies.cluster.model import Figures, Owned
from strategies.cluster.packed_records import decompress_record
from strategies.cluster.strategy_memory import BrokerMemory


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The state of one broker. Its bundle table is stored separately and packed. Times in ms since
    the epoch.
    """

    #: Id of the broker, `host:port`.
    broker: str
    #: Position in the order of first appearance in the cluster, from 0.
    order: int
    #: Time of the newest accepted report of figures.
    reported_at_ms: int
    #: The round that was open at that report.
    reported_round: int
    #: Time of the newest accepted bundle table (with the modular load manager that of the same
    #: report); -1 = none yet.
    bundles_at_ms: int
    #: Time of the newest report whose traffic or CPU figures had changed.
    sampled_at_ms: int
    #: The round that was open at that report.
    sampled_round: int
    #: When the last move of a bundle from or to this broker ended: only later samples count.
    judged_after_ms: int
    #: Digest of the newest figures.
    digest: str
    #: Digest of the newest bundle table.
    bundles_digest: str
    #: The newest figures.
    figures: Figures
    #: Memory of strategies about the broker.
    memory: BrokerMemory = BrokerMemory()
    #: Summary of the packed bundle table, written together with it.
    table: TableSummary = TableSummary()
    #: One sentence for each part that could not be used of the newest report of figures, and of the
    #: newest bundle table.
    left_out: tuple[str, ...] = ()
    left_out_of_table: tuple[str, ...] = ()

    @property
    def newest_report_ms(self) -> int:
        """Time of the broker's last report, of figures or of bundles."""
        return max(self.reported_at_ms, self.bundles_at_ms)


class StateStore(Protocol):
    """The store of one cluster's state. All arguments and results are immutable values, so a
    persistent store may convert them once per micro-batch, not per record.
    """

    def get_broker(self, broker: str) -> BrokerState | None: ...
    def put_broker(self, state: BrokerState) -> None: ...
    def remove_broker(self, broker: str) -> None:
        """Removes the broker and its table; ignores unknown names."""

    def brokers(self) -> Iterator[BrokerState]:
        """Returns all brokers, in any order."""

    def get_table(self, broker: str) -> bytes | None: ...
    def put_table(self, broker: str, table: bytes) -> None: ...
    def get_owned(self, broker: str) -> bytes | None:
        """Returns the packed note of all bundles of a broker, whose table may have only the busiest
        ones; None without a note.
        """

    def put_owned(self, broker: str, owned: bytes) -> None: ...
    def remove_owned(self, broker: str) -> None:
        """Removes the note of a broker; ignores unknown names."""

    def get_cluster(self) -> ClusterState:
        """Returns the state of the cluster; `ClusterState()` for one without records so far."""

    def put_cluster(self, state: ClusterState) -> None: ...


@dataclass(slots=True)
class InMemoryStore:
    """A StateStore of plain dictionaries, for replay, simulation and tests."""

    _brokers: dict[str, BrokerState] = field(default_factory=dict)
    _tables: dict[str, bytes] = field(default_factory=dict)
    _owned: dict[str, bytes | None] = field(default_factory=dict)
    _cluster: ClusterState = ClusterState()

    def get_broker(self, broker: str) -> BrokerState | None:
        return self._brokers.get(broker)

    def put_broker(self, state: BrokerState) -> None:
        self._brokers[state.broker] = state

    def remove_broker(self, broker: str) -> None:
        self._brokers.pop(broker, None)
        self._tables.pop(broker, None)

    def brokers(self) -> Iterator[BrokerState]:
        return iter(list(self._brokers.values()))

    def get_table(self, broker: str) -> bytes | None:
        return self._tables.get(broker)

    def put_table(self, broker: str, table: bytes) -> None:
        self._tables[broker] = table

    def get_owned(self, broker: str) -> bytes | None:
        return self._owned.get(broker)

    def put_owned(self, broker: str, owned: bytes) -> None:
        self._owned[broker] = owned

    def remove_owned(self, broker: str) -> None:
        self._owned.pop(broker, None)

    def get_cluster(self) -> ClusterState:
        return self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state


def read_note(broker: str, store: StateStore) -> Owned | None:
    """Returns the newest note about a broker; None without one."""
    packed = store.get_owned(broker)
    if packed is None:
        return None
    record = decompress_record(packed)
    assert isinstance(record, Owned)
    return record

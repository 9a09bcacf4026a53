"""The state of one cluster and its brokers between two records, and its store: a protocol, and the
implementation in memory. Times in ms since the epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

from strategies.bundles import TableSummary
from strategies.cluster.budget import Spent
from strategies.cluster.model import Figures, Owned
from strategies.cluster.move_cost import MeasuredPause
from strategies.cluster.packed_records import EarlyRecord, unpack_record
from strategies.cluster.quota import EMPTY, Bulkhead
from strategies.cluster.remembered_intents import NO_INTENTS, Intents
from strategies.cluster.rival_state import NO_RIVALS, Rivals
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.settings import RoundSettings

#: Producers other than brokers, under names that no broker has.
COLLECTOR, EXECUTOR = "collector", "executor"


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of a cluster: the largest believed timestamp of its log, see `producer_votes`."""

    now_ms: int
    #: First and last time of the records outside the tolerance since the last believed one, as long
    #: as they come in ascending order.
    run_from_ms: int | None = None
    run_to_ms: int | None = None
    #: Number of these records.
    run: int = 0


@dataclass(frozen=True, slots=True)
class Stray:
    """A producer whose clock is not believed."""

    #: Time of its newest record.
    ts: int
    #: Distance by which that time was ahead of the cluster's; negative if it was behind.
    lead_ms: int
    #: The broker's newest figures, which a round may use, have a time of that clock.
    used: bool
    #: That record was newer than all earlier records of its producer, so that it is a vote.
    news: bool = True

    @property
    def heard_ms(self) -> int:
        """Arrival of its newest record by the cluster's time."""
        return self.ts - self.lead_ms


def tolerance_of(settings: RoundSettings) -> int:
    """Returns the largest lead (ms) that a producer may have without a vote: half of
    `round.stale_after_ms`, so that following the lead makes no report of that age stale.
    """
    return min(settings.stale_after_ms // 2, settings.max_clock_jump_ms)


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class InFlight:
    """A commanded move that no report has shown yet."""

    command_id: str
    source: str
    destination: str | None
    issued_at_ms: int
    expires_at_ms: int
    #: The part (0–1) of the source's traffic that moves with the bundle.
    load: float
    #: The source's report no longer lists the bundle.
    left: bool = False
    #: An outcome says that the destination owns it.
    arrived: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A command to move or split a bundle, without an outcome so far."""

    command_id: str
    issued_at_ms: int
    expires_at_ms: int
    #: Its part of the budget (bytes/s); None for a split.
    throughput: float | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A command that a dry run has answered, kept while another executor may still carry it out."""

    bundle: str
    order: Order
    #: The move that it commanded; None for a split.
    flight: InFlight | None


@dataclass(frozen=True, slots=True)
class Departed:
    """Averages of a bundle that left a broker, kept until its new broker reports it."""

    #: As in `averages.BundleHistory.row`.
    row: tuple[float, ...]
    #: The round that was open when it left.
    round: int


@dataclass(frozen=True, slots=True)
class Gained:
    """A bundle that appeared on a broker before its old broker reported its departure."""

    broker: str
    #: The round that was open when it appeared.
    round: int


@dataclass(frozen=True)
class ClusterState:
    """The state of one cluster without its brokers. Without slots, for `quick_replace`."""

    #: The cluster's time; None before the first record that counts.
    clock: Clock | None = None
    #: The first records of the log, until the first round has closed; None from then on.
    early: tuple[EarlyRecord, ...] | None = ()
    #: Number of the last closed round, 0 before the first.
    round: int = 0
    #: When that round closed; before the first one the time of the first record.
    round_at_ms: int = 0
    #: Time of the newest sweep marker, -1 before the first.
    sweep_at_ms: int = -1
    #: Number of brokers that ever joined; each gets the number before it as its `order`.
    joined: int = 0
    #: Number of brokers in the last round.
    live: int = 0
    #: Number of brokers that have reported since that round.
    reported: int = 0
    #: Bundle → its commanded move that no report has shown yet.
    in_flight: Mapping[str, InFlight] = field(default_factory=dict)
    #: Bundle → when its cool-down began, by a command.
    cooling: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → its averages, kept for the broker that takes it.
    departed: Mapping[str, Departed] = field(default_factory=dict)
    #: Bundle → the broker on which it appeared before its departure was reported.
    gained: Mapping[str, Gained] = field(default_factory=dict)
    #: Broker without figures in the newest sweep → the reason.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: Broker that left → the time of its last record.
    gone: Mapping[str, int] = field(default_factory=dict)
    #: Memory of strategies about the cluster.
    memory: ClusterMemory = ClusterMemory()
    #: Newest snapshot of policies as JSON text; None before the first.
    policies: str | None = None
    #: Moves of each round of the last hour.
    spent: tuple[Spent, ...] = ()
    #: Bundle → when a dispatch limit was advised for it.
    advised: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → the newest command about it.
    orders: Mapping[str, Order] = field(default_factory=dict)
    #: Command id → the command that a dry run has answered.
    rehearsed: Mapping[str, Rehearsal] = field(default_factory=dict)
    #: Number of the newest sweep marker, -1 before the first.
    sweep: int = -1
    #: Producer whose clock is not believed → its newest record.
    strays: Mapping[str, Stray] = field(default_factory=dict)
    #: Number of brokers whose clock has a vote (`producer_votes`).
    voters: int = 0
    #: Broker that has reported since the time last moved, without moving it → the time of that
    #: report.
    trailing: Mapping[str, int] = field(default_factory=dict)
    #: The brokers of `trailing` that the last move of the time left behind by more than the
    #: tolerance → the same time.
    overtaken: Mapping[str, int] = field(default_factory=dict)
    #: Drains and rolls that operators asked for.
    intents: Intents = NO_INTENTS
    #: Moves of bundles by something else.
    rivals: Rivals = NO_RIVALS
    #: Measured pauses of the newest moves, ascending.
    pauses: tuple[MeasuredPause, ...] = ()
    #: Bundle → its topics, oldest record first.
    topics: Mapping[str, TopicsOfBundle] = field(default_factory=dict)
    #: The quota of its records.
    bulkhead: Bulkhead = EMPTY
    #: A warm start decided on commands that were not published, and the state still holds their
    #: moves (`drop_unseen_moves` removes them); only with strategies that judge their moves.
    dropped: bool = False

    @property
    def now_ms(self) -> int:
        """The cluster's time; only after the first record that counts."""
        assert self.clock is not None
        return self.clock.now_ms


def quick_replace(value: _T, **changes: Any) -> _T:
    """Does what `dataclasses.replace` does, in a tenth of its time, for states that change with
    every record: frozen dataclasses without slots. Does not call `__init__`. Raises TypeError for
    names that are no fields.
    """
    copy: _T = object.__new__(type(value))
    fields = copy.__dict__
    fields.update(value.__dict__)
    fields.update(changes)
    if len(fields) != len(value.__dict__):
        unknown = sorted(changes.keys() - value.__dict__.keys())
        raise TypeError(f"{type(value).__name__} has no field {', '.join(unknown)}")
    return copy


def newest_entries(entries: Mapping[str, _T], most: int) -> Mapping[str, _T]:
    """Returns the last `most` entries."""
    if len(entries) <= most:
        return entries
    return dict(islice(entries.items(), len(entries) - most, None))


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

    def get_table(self, name: str) -> bytes | None:
        """Returns the packed table of a broker, or the note about one (`note_name`); None without
        it.
        """

    def put_table(self, name: str, table: bytes) -> None: ...
    def remove_table(self, name: str) -> None:
        """Removes a table or a note; ignores unknown names."""

    def get_cluster(self) -> ClusterState:
        """Returns the state of the cluster; `ClusterState()` for one without records so far."""

    def put_cluster(self, state: ClusterState) -> None: ...


@dataclass(slots=True)
class InMemoryStore:
    """A StateStore of plain dictionaries, for replay, simulation and tests."""

    _brokers: dict[str, BrokerState] = field(default_factory=dict)
    _tables: dict[str, bytes] = field(default_factory=dict)
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

    def get_table(self, name: str) -> bytes | None:
        return self._tables.get(name)

    def put_table(self, name: str, table: bytes) -> None:
        self._tables[name] = table

    def remove_table(self, name: str) -> None:
        self._tables.pop(name, None)

    def get_cluster(self) -> ClusterState:
        return self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state


def note_name(broker: str) -> str:
    """Returns the name among the tables of the packed note of all bundles of a broker, whose table
    may have only the busiest ones. No name of a broker has a slash.
    """
    return f"{broker}/owned"


def read_note(broker: str, store: StateStore) -> Owned | None:
    """Returns the newest note about a broker; None without one."""
    packed = store.get_table(note_name(broker))
    if packed is None:
        return None
    record = unpack_record(packed)
    assert isinstance(record, Owned)
    return record

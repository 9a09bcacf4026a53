"""The state of one cluster between two records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from strategies.cluster.budget import Spent
from strategies.cluster.intent_state import NO_INTENTS, Intents
from strategies.cluster.memory import ClusterMemory
from strategies.cluster.move_cost import MeasuredPause
from strategies.cluster.packing import EarlyRecord
from strategies.cluster.quota import EMPTY, Bulkhead
from strategies.cluster.rival_state import NO_RIVALS, Rivals
from strategies.errors import SettingsError
from strategies.settings import RoundSettings

#: Producers other than brokers, under names that no broker has.
COLLECTOR, EXECUTOR = "collector", "executor"


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of a cluster: the largest believed timestamp of its log."""

    now_ms: int
    #: First and last time of the records outside the tolerance since the last accepted one.
    run_from_ms: int | None = None
    run_to_ms: int | None = None
    #: Number of these records.
    run: int = 0


@dataclass(frozen=True, slots=True)
class Stray:
    """A producer whose clock is not believed. `ts`: time of its newest record; `lead_ms`: how far
    that time was ahead of the cluster's.

    `used`: whether the broker's newest figures, which a round may use, carry that clock; `news`:
    whether that record is newer than all earlier records of its producer, so that it counts as a
    vote.
    """

    ts: int
    lead_ms: int
    used: bool
    news: bool = True

    @property
    def heard_ms(self) -> int:
        """Arrival of its newest record, by the cluster's time."""
        return self.ts - self.lead_ms


def tolerance_of(settings: RoundSettings) -> int:
    """Returns the time (ms) by which a producer may lead: another broker whose report is as old as
    this is then not stale because of the lead.
    """
    return min(settings.stale_after_ms // 2, settings.max_clock_jump_ms)


def check_clock(settings: RoundSettings) -> None:
    """Raises SettingsError if a pause too short to make a report stale would count as a wrong
    clock.
    """
    stale, jump = settings.stale_after_ms, settings.max_clock_jump_ms
    if stale > jump:
        text = (
            f"{stale} is more than round.max_clock_jump_ms ({jump}), so a pause that leaves no "
            "report stale would count as a wrong clock"
        )
        raise SettingsError(
            [f"round.stale_after_ms: {text}; lower it, or raise round.max_clock_jump_ms"]
        )


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class InFlight:
    """A commanded move that no report has shown yet.

    `load`: the part (0–1) of the source's traffic that moves with the bundle; `left`: the source's
    report no longer lists the bundle; `arrived`: an outcome says that the destination owns it.
    """

    command_id: str
    source: str
    destination: str | None
    issued_at_ms: int
    expires_at_ms: int
    load: float
    left: bool = False
    arrived: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A command to move or split a bundle, without an outcome so far. `throughput`: its part of the
    budget (bytes/s); None for a split.
    """

    command_id: str
    issued_at_ms: int
    expires_at_ms: int
    throughput: float | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A command that a dry run has answered. `flight`: the move that it commanded; None for a
    split.
    """

    bundle: str
    order: Order
    flight: InFlight | None


@dataclass(frozen=True, slots=True)
class Departed:
    """Averages of a bundle that left a broker, kept until its new broker reports. Rows as in
    `averages.BundleHistory.row`.
    """

    row: tuple[float, ...]
    round: int


@dataclass(frozen=True, slots=True)
class Gained:
    """A bundle that appeared on a broker before its old broker reported its departure."""

    broker: str
    round: int


@dataclass(frozen=True)
class ClusterState:
    """State of one cluster, without its brokers. Times in ms since the epoch. Without slots, for
    `quick_replace`.
    """

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
    #: Number of brokers ever seen, from which each gets its order.
    joined: int = 0
    #: Number of brokers in the last round.
    live: int = 0
    #: Number of brokers that have reported since.
    reported: int = 0
    #: Bundle → its commanded move that no report has shown yet.
    in_flight: Mapping[str, InFlight] = field(default_factory=dict)
    #: Bundle → when it was commanded to move.
    cooling: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → its averages, kept for the broker that takes it.
    departed: Mapping[str, Departed] = field(default_factory=dict)
    #: Bundle → the broker on which it appeared before its departure was reported.
    gained: Mapping[str, Gained] = field(default_factory=dict)
    #: Broker → why it did not answer in the newest sweep.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: Broker that left recently → the time of its last record.
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
    #: Producer whose clock is not believed → its clock's figures.
    strays: Mapping[str, Stray] = field(default_factory=dict)
    #: Number of brokers whose clock has a vote (`producer_votes`).
    voters: int = 0
    #: Broker that reported since the time last moved, without moving it → the time of that report.
    trailing: Mapping[str, int] = field(default_factory=dict)
    #: The subset of these that the record that moved the time left far behind → the same time.
    overtaken: Mapping[str, int] = field(default_factory=dict)
    #: Drains and rolls that operators asked for.
    intents: Intents = NO_INTENTS
    #: Moves of bundles by something else.
    rivals: Rivals = NO_RIVALS
    #: Measured pauses of the newest moves, ascending.
    pauses: tuple[MeasuredPause, ...] = ()
    #: Its quota of records.
    bulkhead: Bulkhead = EMPTY
    #: Commands of a warm start were dropped, and have not been taken back yet; only where the
    #: strategy judges its moves.
    dropped: bool = False

    @property
    def now_ms(self) -> int:
        """The cluster's time, once a record counts."""
        assert self.clock is not None
        return self.clock.now_ms


def quick_replace(value: _T, **changes: Any) -> _T:
    """`dataclasses.replace` at a tenth of its time, for what changes with every record: frozen
    dataclasses without slots. Does not call `__init__`. Raises TypeError for names that are no
    fields.
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
    """At most the last `most` entries."""
    if len(entries) <= most:
        return entries
    return dict(islice(entries.items(), len(entries) - most, None))

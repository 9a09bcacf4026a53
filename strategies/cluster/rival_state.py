"""The evidence about moves of bundles by something else, and about those by commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strategies.cluster.budget import HOUR_MS

#: A list of bundles may be this much older than its report: modular brokers count their bundles
#: once a minute.
AGE_MS = 90_000
#: Maximum number of bundles between two brokers, and of commands that are kept: further ones
#: replace the oldest.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Sighting:
    """A bundle that left a broker, or appeared on one, and whose other broker has not shown it yet.
    `explained`: the change is no move of a living cluster: the bundle is new, or its broker was
    away.
    """

    broker: str
    ts: int
    explained: bool = False


@dataclass(frozen=True, slots=True)
class OwnMove:
    """A move that a command asked for. `destination`: of the command, then the owner that the
    outcome names; None while no one has named it. `until_ms`: changes of ownership up to then may
    come from it; `answered_ms`: time of an outcome that says that the bundle has moved;
    `confirmed`: that outcome named the owner.
    """

    command_id: str
    source: str
    destination: str | None
    issued_ms: int
    until_ms: int
    answered_ms: int | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class ForeignMove:
    """A bundle that something else moved. `ts`: when the fold could first see it. `against`: a
    command of the hour before had placed the bundle.
    """

    bundle: str
    source: str
    destination: str
    ts: int
    against: bool = False


@dataclass(frozen=True, slots=True)
class Suspect:
    """A move that may be foreign. `began_ms`: when the first of its two brokers showed it;
    `left_ms`: when the source did; `passes`: number of sweeps since, all of which found the source
    alive.
    """

    move: ForeignMove
    began_ms: int
    left_ms: int
    passes: int = 0


@dataclass(frozen=True)
class Rivals:
    """Evidence and findings. Times in ms since the epoch. Without slots, for `quick_replace`."""

    #: Since when sweeps follow each other without a gap; -1 before the first.
    watching_ms: int = -1
    #: Usual time between two sweeps: that of the last two, or a little less than before; 0 before.
    pass_ms: int = 0
    #: Broker → the newest sweep that did not find it.
    absent: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → the broker that it left; no other broker has it yet.
    left: Mapping[str, Sighting] = field(default_factory=dict)
    #: Bundle → the broker on which it appeared; no other broker has given it up yet.
    arrived: Mapping[str, Sighting] = field(default_factory=dict)
    #: Bundle → its newest commands of the last hour, oldest first.
    ours: Mapping[str, tuple[OwnMove, ...]] = field(default_factory=dict)
    #: Moves that wait for more evidence.
    suspects: tuple[Suspect, ...] = ()
    #: Foreign moves since the last round.
    news: tuple[ForeignMove, ...] = ()
    #: Those of earlier rounds, newest last.
    moves: tuple[ForeignMove, ...] = ()
    #: Times of the rounds of the last hour that found foreign moves against ours.
    against_ms: tuple[int, ...] = ()
    #: When rounds began to yield; None = they do not.
    yielding_ms: int | None = None
    #: Foreign moves up to then no longer count: rounds have yielded to them.
    settled_ms: int = -1
    #: How often rounds have yielded again within an hour of acting again.
    again: int = 0
    #: The leader by the newest sweep; None = unknown.
    leader: str | None = None
    #: True if Pulsar's own shedder is on there; None = unknown.
    shedding: bool | None = None


NO_RIVALS = Rivals()


def used_by_rounds(rivals: Rivals) -> list[Any]:
    """Returns the findings, without the evidence, as JSON values."""
    moves = [(move.bundle, move.source, move.destination, move.ts) for move in rivals.moves]
    rest = (rivals.yielding_ms, rivals.settled_ms, rivals.again, rivals.leader, rivals.shedding)
    return [moves, *rest]


def at_another_time(rivals: Rivals, now_ms: int) -> Rivals:
    """Keeps only whether rounds yield, from now on, when the cluster's clock goes back: the rest
    has times of the old clock.
    """
    if rivals.yielding_ms is None:
        return replace(NO_RIVALS, leader=rivals.leader, shedding=rivals.shedding)
    newest = [replace(move, ts=now_ms) for move in (*rivals.moves, *rivals.news)[-1:]]
    return Rivals(
        moves=tuple(newest),
        yielding_ms=now_ms,
        again=rivals.again,
        leader=rivals.leader,
        shedding=rivals.shedding,
    )


def without_old_commands(rivals: Rivals, now_ms: int) -> Rivals:
    """Without the commands of more than an hour ago."""
    ours = {
        bundle: commands
        for bundle, commands in rivals.ours.items()
        if max(commands[-1].issued_ms, commands[-1].until_ms) >= now_ms - HOUR_MS
    }
    return rivals if len(ours) == len(rivals.ours) else replace(rivals, ours=ours)

"""The evidence about moves of bundles by something else (a rival: Pulsar's own shedder, a script, a
person), and about those by commands. Times in ms since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strategies.cluster.budget import HOUR_MS

#: Largest age (ms) of a list of bundles when its report is published: modular brokers renew the
#: list once a minute.
AGE_MS = 90_000
#: Maximum number of bundles between two brokers, and of bundles with commands, that a state keeps:
#: further ones replace the oldest.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Sighting:
    """The first half of a possible move: a bundle left a broker, or appeared on one, and no other
    broker has shown the second half yet.
    """

    broker: str
    ts: int
    #: The change is no move by a rival: the bundle is new, or its broker was away.
    explained: bool = False


@dataclass(frozen=True, slots=True)
class OwnMove:
    """A move that a command of the rebalancer asked for."""

    command_id: str
    source: str
    #: The destination of the command, then the owner that its outcome names; None while unknown.
    destination: str | None
    issued_ms: int
    #: Changes of owners up to then may come from the command.
    until_ms: int
    #: Time of the outcome that says that the bundle has moved.
    answered_ms: int | None = None
    #: That outcome names another owner.
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class ForeignMove:
    """A move of a bundle by something else."""

    bundle: str
    source: str
    destination: str
    #: Time of the record that first showed it.
    ts: int
    #: A command of the hour before had placed the bundle.
    against: bool = False


@dataclass(frozen=True, slots=True)
class Suspect:
    """A move that may be foreign, until later sweeps confirm or refute it."""

    move: ForeignMove
    #: When the first of its two brokers showed it, and when the source did.
    began_ms: int
    left_ms: int
    #: Number of sweeps since then, all of which found the source alive.
    passes: int = 0


@dataclass(frozen=True)
class Rivals:
    """Evidence about moves by something else, and the moves found. Without slots, for
    `quick_replace`.
    """

    #: Time of the first sweep since the last gap between sweeps; -1 before the first.
    watching_ms: int = -1
    #: Usual time between two sweeps: the last one, or three quarters of the value before if that is
    #: more; 0 before the second sweep.
    pass_ms: int = 0
    #: Broker → the newest sweep that did not find it.
    absent: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → the broker that it left, while no other broker lists it.
    left: Mapping[str, Sighting] = field(default_factory=dict)
    #: Bundle → the broker on which it appeared, while no other broker has given it up.
    arrived: Mapping[str, Sighting] = field(default_factory=dict)
    #: Bundle → its newest commands of the last hour, oldest first.
    ours: Mapping[str, tuple[OwnMove, ...]] = field(default_factory=dict)
    #: Moves that may be foreign.
    suspects: tuple[Suspect, ...] = ()
    #: Foreign moves since the last round.
    news: tuple[ForeignMove, ...] = ()
    #: Foreign moves of earlier rounds, newest last.
    moves: tuple[ForeignMove, ...] = ()
    #: Times of the rounds of the last hour that found foreign moves of bundles that commands had
    #: placed.
    against_ms: tuple[int, ...] = ()
    #: When rounds began to yield; None while they act.
    yielding_ms: int | None = None
    #: When rounds last ended yielding: foreign moves up to then no longer count.
    settled_ms: int = -1
    #: Number of relapses: rounds yielded again within an hour after they ended yielding.
    again: int = 0
    #: The leader by the newest sweep; None = unknown.
    leader: str | None = None
    #: True if Pulsar's own shedder is on there; None = unknown.
    shedding: bool | None = None


NO_RIVALS = Rivals()


def values_for_digest(rivals: Rivals) -> list[Any]:
    """Returns the part on which rounds depend, as JSON values for their digest."""
    moves = [(move.bundle, move.source, move.destination, move.ts) for move in rivals.moves]
    rest = (rivals.yielding_ms, rivals.settled_ms, rivals.again, rivals.leader, rivals.shedding)
    return [moves, *rest]


def move_rivals_back(rivals: Rivals, now_ms: int) -> Rivals:
    """Returns what stays valid after the cluster's time went back to `now_ms`: the leader, and
    yielding, which begins again now. Everything else has times of the old clock.
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


def forget_old_commands(rivals: Rivals, now_ms: int) -> Rivals:
    """Removes the commands of bundles whose newest one is more than an hour old."""
    ours = {
        bundle: commands
        for bundle, commands in rivals.ours.items()
        if max(commands[-1].issued_ms, commands[-1].until_ms) >= now_ms - HOUR_MS
    }
    return rivals if len(ours) == len(rivals.ours) else replace(rivals, ours=ours)

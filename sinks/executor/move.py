"""One command on its way: where its bundle is, how often it was unloaded, and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sinks.wire.contracts.commands import CommandRecord

#: Unloads of one bundle for one command, over the life of all processes: the move, and its repair.
MOST_UNLOADS = 2


class Place(NamedTuple):
    """Where a bundle is. `known`: the cluster said so; `split`: it exists no more."""

    owner: str | None
    known: bool = True
    split: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a command may still do.

    `may_go_on`: asked before each repetition. `begin`: called before an unload, with its number, so
    that it is on the disk. `unloads`: those of a process that died. `refuse_repair`: why the bundle
    may not be unloaded once more from this broker; empty takes one repair from the budget.
    `had_clients`: whether the bundle is known to have had clients. `claims`: whether the bundle may
    be looked up in the name of a client, which gives it an owner.
    """

    may_go_on: Callable[[], bool] = lambda: True
    begin: Callable[[int], None] = lambda _: None
    unloads: int = 0
    refuse_repair: Callable[[str], str] = lambda _: "repairs are off"
    had_clients: bool = False
    claims: bool = True


@dataclass(slots=True)
class MoveOnItsWay:
    """`command` after `unloads` calls that may have unloaded its bundle. `released_s`: when the
    last of them was answered; `owned_s`: when a broker was first seen to own the bundle after it;
    `lost_to`: the broker that had the bundle before a repair; `unrepaired`: why there was none.
    """

    command: CommandRecord
    allowance: Allowance
    unloads: int
    released_s: float | None = None
    owned_s: float | None = None
    lost_to: str | None = None
    unrepaired: str = ""

    @property
    def is_split(self) -> bool:
        """Whether the bundle is split, and goes nowhere."""
        return self.command.action == "split"

    @property
    def destination(self) -> str | None:
        """Where the bundle is to go; None for a split, and where any broker may have it."""
        return None if self.is_split else self.command.destination

    @property
    def is_plain(self) -> bool:
        """A release after which any broker may own the bundle, its old one included."""
        return not self.is_split and self.command.destination is None

    @property
    def unowned_ms(self) -> int | None:
        """From the release until an owner was seen; None if either was not seen."""
        if self.released_s is None or self.owned_s is None:
            return None
        return max(0, round((self.owned_s - self.released_s) * 1000))

    def is_released(self, place: Place) -> bool:
        """Whether the command has had an effect."""
        return place.split if self.is_split else place.owner != self.command.source

    def is_settled(self, place: Place) -> bool:
        """Whether there is nothing more to wait for: the bundle is where it will stay."""
        if self.is_split:
            return place.split
        return place.owner not in (None, self.command.source)

    def is_lost(self, place: Place) -> bool:
        """Whether a broker owns the bundle that is not its destination."""
        return (
            place.known
            and place.owner is not None
            and self.destination is not None
            and place.owner != self.destination
        )

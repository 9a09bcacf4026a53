"""A command on its way (where its bundle is, how often it was unloaded), and its effect: what the
judge objects to, or what Pulsar did with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sinks.pulsar_api.admin_errors import Busy, Declined, Unanswered
from strategies.cluster.model import Command, OutcomeStatus
from strategies.errors import AdminError, BrokerUnavailable, NotFound, NotOwned
from strategies.executor.admission import Objection

#: Unloads of one bundle for one command, over the life of all processes: the move, and its repair.
MOST_UNLOADS = 2


class Place(NamedTuple):
    """Where a bundle is. `known`: the cluster said so; `split`: it exists no more."""

    owner: str | None
    known: bool = True
    split: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits of what a command may still do.

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

    command: Command
    allowance: Allowance
    unloads: int
    released_s: float | None = None
    owned_s: float | None = None
    lost_to: str | None = None
    unrepaired: str = ""

    @property
    def is_split(self) -> bool:
        """True if the bundle is split, and goes nowhere."""
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
        """True if the command has had an effect."""
        return place.split if self.is_split else place.owner != self.command.source

    def is_settled(self, place: Place) -> bool:
        """True if there is nothing more to wait for: the bundle is where it will stay."""
        if self.is_split:
            return place.split
        return place.owner not in (None, self.command.source)

    def is_lost(self, place: Place) -> bool:
        """True if a broker owns the bundle that is not its destination."""
        return (
            place.known
            and place.owner is not None
            and self.destination is not None
            and place.owner != self.destination
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """`reason` is None when the effect is just as commanded; `owner_after`: who owns the bundle
    then. `unowned_ms`, `unloads`: what it cost, None if unknown. `released_s`: when the bundle was
    released, by the applier's clock.
    """

    status: OutcomeStatus
    reason: str | None
    owner_after: str | None
    unowned_ms: int | None = None
    unloads: int | None = None
    released_s: float | None = None


def refusal(objection: Objection, owner: str | None) -> Effect:
    """The effect of an objection; nothing was called."""
    return Effect(objection.status, str(objection), owner)


def effect_of_failed_read(error: AdminError) -> Effect:
    """The effect of a command about which the cluster did not say what was asked; nothing was
    called.
    """
    code = code_of_failed_read(error)
    return Effect("refused" if code == "not-owned" else "failed", f"{code}: {error}", None)


def code_of_failed_read(error: AdminError) -> str:
    """The code of a failed read: the cluster was silent, or answered, but not what was asked."""
    if isinstance(error, NotOwned):
        return "not-owned"
    if isinstance(error, Declined):
        return "declined"
    silent = isinstance(error, BrokerUnavailable) and not isinstance(error, Busy)
    return "cluster-silent" if silent else "cluster-error"


def effect_of_split(place: Place, source: str) -> Effect:
    """The effect of a split that Pulsar has accepted."""
    if place.split or not place.known:
        return Effect(
            "applied",
            None if place.split else "unverified: the cluster does not report the bundles",
            source,
        )
    return Effect(
        "failed",
        "nothing-split: Pulsar accepted the split and did nothing; it found no place to cut",
        place.owner,
    )


def effect_of_move(move: MoveOnItsWay, place: Place, waited_s: float) -> Effect:
    """The effect of a release by Pulsar, by where the bundle was seen last."""
    status, reason = _verdict(move, place, waited_s)
    return Effect(
        status, reason, place.owner, move.unowned_ms, move.unloads or None, move.released_s
    )


def _verdict(move: MoveOnItsWay, place: Place, waited_s: float) -> tuple[OutcomeStatus, str | None]:
    source, destination = move.command.source, move.destination
    if not place.known:
        return (
            "applied",
            "unverified: Pulsar released the bundle; the cluster does not report its owner",
        )
    if place.owner is None:
        return "applied", _unowned(move, waited_s)
    if place.owner == source:
        return (
            "failed",
            f"came-back: Pulsar released the bundle, and {source} has it again{_tried(move)}",
        )
    if destination not in (None, place.owner):
        return (
            "applied",
            f"elsewhere: the bundle went to {place.owner}, not to {destination}{_tried(move)}",
        )
    if move.lost_to is not None:
        return (
            "applied",
            f"repaired: the bundle went to {move.lost_to} first, where a look-up by another client "
            "had sent it, and was unloaded once more",
        )
    return "applied", None


def _unowned(move: MoveOnItsWay, waited_s: float) -> str:
    if move.allowance.had_clients:
        return (
            "unowned: Pulsar released the bundle, which had clients, and no broker has owned it "
            f"for {waited_s:.0f} s"
        )
    return "not-looked-up: Pulsar released the bundle; no client has looked it up yet"


def _tried(move: MoveOnItsWay) -> str:
    if move.lost_to is not None:
        return "; a second unload did not bring it there either"
    return f"; not unloaded once more: {move.unrepaired}" if move.unrepaired else ""


#: Reason codes of failed calls; the first match counts.
_CODES: Mapping[type[Exception], str] = {
    Unanswered: "unanswered",
    BrokerUnavailable: "broker-unavailable",
    NotFound: "not-found",
    NotOwned: "not-owned",
    Declined: "declined",
}


def effect_of_failed_call(
    failure: AdminError, owner: str | None, unloads: int | None = None
) -> Effect:
    """The effect of a command whose call failed, and had no effect as far as is known."""
    codes = (code for kind, code in _CODES.items() if isinstance(failure, kind))
    code = next(codes, "refused-by-broker")
    return Effect("failed", f"{code}: {failure}", owner, unloads=unloads)

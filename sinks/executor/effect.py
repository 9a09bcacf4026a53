"""What came of a command: what the judge objects to, or what Pulsar did with it."""

from __future__ import annotations

from dataclasses import dataclass

from sinks.executor.move import MoveOnItsWay, Place
from sinks.pulsar_api.answers import Busy, Declined
from strategies.cluster.model import OutcomeStatus
from strategies.errors import AdminError, BrokerUnavailable, NotOwned
from strategies.executor.admission import Objection


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
    """What became of a command about which the cluster did not say what was asked; nothing was
    called.
    """
    code = code_of_failed_read(error)
    return Effect("refused" if code == "not-owned" else "failed", f"{code}: {error}", None)


def code_of_failed_read(error: AdminError) -> str:
    """Whether the cluster was silent, or answered, but not what was asked."""
    if isinstance(error, NotOwned):
        return "not-owned"
    if isinstance(error, Declined):
        return "declined"
    silent = isinstance(error, BrokerUnavailable) and not isinstance(error, Busy)
    return "cluster-silent" if silent else "cluster-error"


def effect_of_split(place: Place, source: str) -> Effect:
    """What became of a split that Pulsar has accepted."""
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
    """What became of a bundle that Pulsar has released, where it was seen last."""
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

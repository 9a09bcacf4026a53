"""Remembers the rebalancer's own moves: from commands, and from outcomes, which may belong to
commands of another epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from strategies.cluster.budget import HOUR_MS
from strategies.cluster.model import Command, Outcome
from strategies.cluster.rival_state import (
    AGE_MS,
    MOST,
    ForeignMove,
    OwnMove,
    Rivals,
    newest_entries,
)

#: Time after which all lists of bundles show a move: twice the age of a list.
_SHOWN_MS = 2 * AGE_MS
#: Number of commands for one bundle that are remembered.
_PER_BUNDLE = 4


def commanded(rivals: Rivals, commands: Iterable[Command]) -> Rivals:
    """The evidence after a round's commands."""
    ours = dict(rivals.ours)
    for command in commands:
        if command.is_move:
            own = OwnMove(
                command.id,
                command.source,
                command.destination,
                command.issued_at_ms,
                command.expires_at_ms + _SHOWN_MS,
            )
            # Last, because the oldest are forgotten first.
            ours[command.bundle] = (*ours.pop(command.bundle, ()), own)[-_PER_BUNDLE:]
    return replace(rivals, ours=newest_entries(ours, MOST))


def answered(rivals: Rivals, outcome: Outcome, ts: int) -> Rivals:
    """The evidence after an outcome of time `ts`. A command that is not carried out explains
    nothing; one that failed may have released its bundle.
    """
    some = rivals.ours.get(outcome.bundle, ())
    own = next((one for one in some if one.command_id == outcome.command_id), None)
    if outcome.status in ("refused", "expired", "dry-run"):
        if own is None or own.answered_ms is not None:
            return rivals
        return _with(rivals, outcome.bundle, [one for one in some if one is not own])
    source = outcome.owner_before or (None if own is None else own.source)
    if source is None:
        return rivals
    moved = OwnMove(
        outcome.command_id,
        source,
        outcome.owner_after or (None if own is None else own.destination),
        min(ts - outcome.took_ms, ts if own is None else own.issued_ms),
        ts + _SHOWN_MS,
        ts,
        confirmed=outcome.status == "applied" and outcome.owner_after not in (None, source),
    )
    others = [one for one in some if one is not own]
    rivals = _with(rivals, outcome.bundle, [*others, moved][-_PER_BUNDLE:])
    return _without_moves_of(rivals, outcome.bundle, moved)


def without_old_commands(rivals: Rivals, now_ms: int) -> Rivals:
    """Without the commands of more than an hour ago."""
    ours = {
        bundle: some
        for bundle, some in rivals.ours.items()
        if max(some[-1].issued_ms, some[-1].until_ms) >= now_ms - HOUR_MS
    }
    return rivals if len(ours) == len(rivals.ours) else replace(rivals, ours=ours)


def _with(rivals: Rivals, bundle: str, some: Sequence[OwnMove]) -> Rivals:
    ours = {name: own for name, own in rivals.ours.items() if name != bundle}
    if some:
        ours[bundle] = tuple(some)
    return replace(rivals, ours=newest_entries(ours, MOST))


def _without_moves_of(rivals: Rivals, bundle: str, own: OwnMove) -> Rivals:
    """Without moves that the outcome explains after all: executors may act after a command's
    expiry.
    """

    def is_ours(move: ForeignMove) -> bool:
        ours = own.issued_ms - AGE_MS <= move.ts <= own.until_ms
        return move.bundle == bundle and ours and move.source != own.destination

    if not any(map(is_ours, (*rivals.news, *rivals.moves))):
        return rivals
    return replace(
        rivals,
        news=tuple(move for move in rivals.news if not is_ours(move)),
        moves=tuple(move for move in rivals.moves if not is_ours(move)),
    )

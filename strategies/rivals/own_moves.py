"""Remembers the rebalancer's own moves: from commands, and from outcomes, which may belong to
commands of another epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from strategies.model import Command, Outcome
from strategies.rivals.ownership import AGE_MS, MOST, newest
from strategies.rivals.state import ForeignMove, OwnMove, Rivals

#: Time after which all lists of bundles show a move: twice the age of a list.
_SHOWN_MS = 2 * AGE_MS


def commanded(rivals: Rivals, commands: Iterable[Command]) -> Rivals:
    """The evidence after a round's commands."""
    moves = {
        command.bundle: OwnMove(
            command.id,
            command.source,
            command.destination,
            command.issued_at_ms,
            command.expires_at_ms + _SHOWN_MS,
        )
        for command in commands
        if command.is_move
    }
    if not moves:
        return rivals
    others = {bundle: own for bundle, own in rivals.ours.items() if bundle not in moves}
    return replace(rivals, ours=newest({**others, **moves}, MOST))


def answered(rivals: Rivals, outcome: Outcome, ts: int) -> Rivals:
    """The evidence after an outcome of time `ts`. A command that is not carried out explains
    nothing; one that failed may have released its bundle.
    """
    own = rivals.ours.get(outcome.bundle)
    if outcome.status in ("refused", "expired", "dry-run"):
        if own is None or own.command_id != outcome.command_id or own.answered_ms is not None:
            return rivals
        others = {name: one for name, one in rivals.ours.items() if name != outcome.bundle}
        return replace(rivals, ours=others)
    source = outcome.owner_before or (None if own is None else own.source)
    if source is None:
        return rivals
    began_ms = min(ts - outcome.took_ms, ts if own is None else own.issued_ms)
    moved = OwnMove(
        outcome.command_id,
        source,
        outcome.owner_after or (None if own is None else own.destination),
        began_ms,
        ts + _SHOWN_MS,
        ts,
        confirmed=outcome.status == "applied" and outcome.owner_after is not None,
    )
    return _without_moves_of(
        replace(rivals, ours=newest({**rivals.ours, outcome.bundle: moved}, MOST)),
        outcome.bundle,
        moved,
    )


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

"""The rest of a plan: moves that a limit held back, and that the next rounds decide again.

A limit slows a plan down and does not change where it ends, so the rest needs no new evidence: the
samples after its first moves would be too few for that, and a move that is worth it with the others
may not be worth it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from strategies.cluster.memory import Memory
from strategies.cluster.model import Skip
from strategies.shedding.steady.cluster import PlannedCluster
from strategies.shedding.steady.doubt import last_moves
from strategies.shedding.steady.gaps import LoadGap
from strategies.shedding.steady.load_history import Episode, RecentMove, moves_of
from strategies.shedding.steady.move_plan import (
    MovePlan,
    PlannedMove,
    after_moves,
    spread_of,
)


def hold(memory: Memory, bundles: Collection[str]) -> Memory:
    """The memory in which these bundles, which a limit held back, only have to wait."""
    moves = [
        one._replace(held=True) if one.bundle in bundles and not one.counted else one
        for one in moves_of(memory.cluster)
    ]
    return replace(memory, cluster=replace(memory.cluster, moves=tuple(moves)))


def goes_on(
    found: LoadGap | Skip,
    held: Sequence[RecentMove],
    episode: Episode,
    made: Sequence[RecentMove],
    now_ms: int,
) -> bool:
    """Whether the rest of the last plan may follow. It does not while the strategy rests, nor where
    `found` is evidence for a new plan and nothing of this one was made: neither ever, nor in the
    last round, when the limit had no room for what is left.
    """
    if not held or not last_moves(episode, made) or now_ms < episode.rests_until_ms:
        return False
    stuck = not _was_used(episode, made)
    return not (stuck and isinstance(found, LoadGap) and found.code != "follow-up")


def _was_used(episode: Episode, made: Sequence[RecentMove]) -> bool:
    """Whether the last round of the plan had moves."""
    return any(one.at_ms == episode.last_at_ms for one in made)


def without_swaps(
    plan: MovePlan, held: Sequence[RecentMove], episode: Episode, made: Sequence[RecentMove]
) -> MovePlan:
    """The plan, with the halves of a swap as moves of their own if the limit had no room for both
    in the last round. The first half alone leaves its destination below its source.
    """
    if _was_used(episode, made) or not any(one.exchange for one in held):
        return plan
    return replace(plan, moves=tuple(replace(one, exchange=0) for one in plan.moves))


def rest_of_plan(
    cluster: PlannedCluster, held: Sequence[RecentMove], episode: Episode
) -> MovePlan | None:
    """The moves of the plan that are still to be made, without those that would now make their
    destination fuller than their source; None if the brokers are as even as the plan was to make
    them, or would be no more even with these moves than they are.
    """
    brokers, moves = cluster.brokers, list[PlannedMove]()
    usage = brokers.usage.copy()
    for move in filter(None, (_planned(cluster, one) for one in held)):
        loses, gains = brokers.effect(move)
        before, room = usage[move.source], brokers.ceiling(move.source, move.destination)
        if usage[move.destination] + gains <= before + room:
            usage[move.source] -= loses
            usage[move.destination] += gains
            moves.append(move)
    plan = MovePlan(tuple(moves), *after_moves(brokers, moves))
    now = spread_of(brokers.usage)
    return plan if now > max(plan.spread, 100 * episode.spread_predicted) else None


def _planned(cluster: PlannedCluster, move: RecentMove) -> PlannedMove | None:
    """The move with the bundle's present size; None where it can no longer be made."""
    if move.source not in cluster.names or move.destination not in cluster.names:
        return None
    source, destination = (cluster.names.index(one) for one in (move.source, move.destination))
    brokers = cluster.brokers
    pieces = brokers.pieces(source)
    if move.bundle not in pieces.names:
        return None
    row = pieces.names.index(move.bundle)
    if not pieces.movable[row] or not brokers.takers(move.bundle, source)[destination]:
        return None
    size, unsure = float(pieces.sizes[row]), float(pieces.unsure[row])
    return PlannedMove(move.bundle, source, destination, size, unsure, move.exchange)

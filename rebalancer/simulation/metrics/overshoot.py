"""How far moves went past the mean: brokers that gave too much (over-unloading) and brokers that were given too much (over-placement)."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np

from rebalancer.simulation.timeline import Move, Timeline
from strategies.bundles.bundle_loads import Floats


def over_unloading(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Points of usage by which brokers that gave bundles fell below the mean of all, round by round, summed up.

    Only what the moves of a round did counts: who was below before counts with how much further it fell.
    """
    return _past(timeline, {(move.round, move.source) for move in moves if move.happened and move.kind != "placed"}, -1.0)


def over_placement(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Points of usage by which brokers that were given bundles rose above the mean of all, round by round, summed up.

    Bundles of a broker that went away count too.
    """
    given = {(move.round - (move.kind == "placed"), move.destination) for move in moves if move.happened}
    return _past(timeline, given, 1.0)


def _past(timeline: Timeline, touched: set[tuple[int, str | None]], way: float) -> float:
    """`way`: 1 = upwards. A move that is decided in one round is seen in the next, a placement in its own."""
    columns = {broker: number for number, broker in enumerate(timeline.brokers)}
    # A set has another order in every process; an exact sum has none.
    return fsum(
        _points(timeline.lasting[round_], timeline.lasting[round_ + 1], columns[broker], way)
        for round_, broker in touched
        if broker in columns and 0 <= round_ < timeline.rounds - 1
    )


def _points(before: Floats, after: Floats, column: int, way: float) -> float:
    known = after[np.isfinite(after)]
    was = before[column] if np.isfinite(before[column]) else after[column]
    if not len(known) or not np.isfinite(after[column]):
        return 0.0
    past, changed = way * (after[column] - known.mean()), way * (after[column] - was)
    return 100.0 * float(max(0.0, min(past, changed)))

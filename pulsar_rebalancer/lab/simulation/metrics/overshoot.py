"""Distance by which moves took brokers past the mean: sources below it (over-unloading),
destinations above it (over-placement).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.bundles.bundle_loads import Floats


def over_unloading(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Sum over rounds of the points of usage by which sources fell below the mean of all brokers.

    Only the effect of the round's moves counts: for a broker that was already below, the additional
    fall.
    """
    return _past(
        timeline,
        {(move.round, move.source) for move in moves if move.happened and move.kind != "placed"},
        -1.0,
    )


def over_placement(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Sum over rounds of the points of usage by which destinations rose above the mean of all
    brokers.

    Bundles of a broker that left count too.
    """
    given = {
        (move.round - (move.kind == "placed"), move.destination) for move in moves if move.happened
    }
    return _past(timeline, given, 1.0)


def _past(timeline: Timeline, touched: set[tuple[int, str | None]], way: float) -> float:
    """`way`: 1 = upwards. The effect of a move is visible in the round after its decision, that of
    a placement in its own round.
    """
    columns = {broker: number for number, broker in enumerate(timeline.brokers)}
    # The order of a set differs between processes; `fsum` is exact, so the sum does not depend on
    # it.
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

"""How right the expectations of commands were: the error of predicted usages, and the moves that
brought next to nothing of the gain they promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan, nan

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.bundles.bundle_loads import Floats
from strategies.ordered_sum import ordered_sum

#: For one statistics period after a move, figures mix the time before and after it.
SEEN_AFTER = 2
#: Moves are useless if they bring less than this part of the predicted gain.
USELESS = 0.1


def prediction_error(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Mean difference of expected and measured usage, in points. NaN if none can be compared, and
    for recorded reports, which do not react to moves.

    Counts a round's last prediction per broker, unless the broker changed again before the
    measurement.
    """
    if timeline.kind == "recorded":
        return nan
    column = _columns(timeline)
    touched: dict[str, set[int]] = {}
    predicted: dict[tuple[int, str], float] = {}
    for move in moves:
        for broker, usage in (
            (move.source, move.expected.source_after),
            (move.destination, move.expected.destination_after),
        ):
            if broker is not None and broker in column:
                touched.setdefault(broker, set()).add(move.round)
                if usage is not None:
                    predicted[move.round, broker] = usage
    errors = [
        abs(usage - float(timeline.usage[round_ + SEEN_AFTER, column[broker]]))
        for (round_, broker), usage in predicted.items()
        if round_ + SEEN_AFTER < timeline.rounds and not touched[broker] & {round_ + 1, round_ + 2}
    ]
    known = [error for error in errors if isfinite(error)]
    return 100 * ordered_sum(known) / len(known) if known else nan


def useless_moves(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Number of moves in rounds after which the spread fell by less than a tenth of the predicted
    fall. NaN if there are moves, but none can be judged, and for recorded reports.

    A round is judged two rounds later, on the brokers that are present in both. A destination
    without a prediction, which Pulsar chose, counts with what the source should lose.
    """
    if timeline.kind == "recorded":
        return nan
    rounds: dict[int, list[Move]] = {}
    for move in moves:
        rounds.setdefault(move.round, []).append(move)
    useless = [_were_useless(timeline, row, of_round) for row, of_round in rounds.items()]
    if useless and all(found is None for found in useless):
        return nan
    counts = map(len, rounds.values())
    return float(ordered_sum(count for count, found in zip(counts, useless, strict=True) if found))


def _were_useless(timeline: Timeline, row: int, moves: Sequence[Move]) -> bool | None:
    """Whether the moves of a round were useless; None if this is unknown."""
    if row + SEEN_AFTER >= timeline.rounds:
        return None
    before, after = timeline.usage[row], timeline.usage[row + SEEN_AFTER]
    changed = _predicted_changes(timeline, moves)
    there = np.isfinite(before) & np.isfinite(after)
    if not np.isfinite((before + changed + after)[there | (changed != 0)]).all():
        return None
    spread, predicted, seen = map(_range, (before[there], (before + changed)[there], after[there]))
    return spread - seen < USELESS * (spread - predicted)


def _predicted_changes(timeline: Timeline, moves: Sequence[Move]) -> Floats:
    """float64[brokers]: how the moves of a round should change usages; NaN for a broker whose
    change is unknown.
    """
    changes = np.zeros(len(timeline.brokers))
    column = _columns(timeline)
    for move in moves:
        loses = _change(move.expected.source_before, move.expected.source_after)
        gains = _change(move.expected.destination_before, move.expected.destination_after)
        for broker, change in ((move.source, loses), (move.destination, gains)):
            if broker in column:
                changes[column[broker]] += -loses if isnan(change) else change
            else:
                changes[:] = nan
    return changes


def _change(before: float | None, after: float | None) -> float:
    return nan if before is None or after is None else after - before


def _columns(timeline: Timeline) -> dict[str | None, int]:
    return {broker: number for number, broker in enumerate(timeline.brokers)}


def _range(figures: Floats) -> float:
    return float(figures.max() - figures.min())

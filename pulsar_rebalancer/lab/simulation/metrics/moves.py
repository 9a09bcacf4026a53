"""Churn of a run: traffic moved, repeated moves of a bundle, moves per hour."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import fsum, isfinite, isnan, nan

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.bundles import Floats
from strategies.ordered_sum import ordered_sum

_HOUR_MS = 3_600_000
#: A bundle that moved should stay for this time, whatever the strategy's own settings say.
REST_MS = _HOUR_MS


def traffic_moved(moves: Sequence[Move]) -> float:
    """Sum of the bytes/s in + out that changed brokers; NaN if the traffic of no move is known."""
    known = [move.traffic for move in moves if not isnan(move.traffic)]
    return float(ordered_sum(known)) if known or not moves else nan


def moved_twice(moves: Sequence[Move]) -> int:
    """Number of bundles that moved more than once."""
    return sum(len(path) > 1 for path in _paths(moves))


def back_and_forth(moves: Sequence[Move]) -> int:
    """Number of moves that returned a bundle to the broker that its previous move took it from."""
    pairs = (pair for path in _paths(moves) for pair in pairwise(path))
    return sum(two.destination is not None and two.destination == one.source for one, two in pairs)


def returns(moves: Sequence[Move]) -> int:
    """Number of moves that brought a bundle back to a broker that it had left within the rest
    time.
    """
    left, back = dict[tuple[str, str | None], int](), 0
    for move in moves:
        left_at = left.get((move.bundle, move.destination))
        back += left_at is not None and move.ts - left_at < REST_MS
        left[move.bundle, move.source] = move.ts
    return back


def most_in_an_hour(moves: Sequence[Move]) -> int:
    """Maximum number of moves within one hour."""
    times = np.array(sorted(move.ts for move in moves), dtype=np.int64)
    if not len(times):
        return 0
    return int(
        (np.searchsorted(times, times + _HOUR_MS, side="left") - np.arange(len(times))).max()
    )


def _paths(moves: Sequence[Move]) -> list[list[Move]]:
    """The moves of each bundle, in order of decision."""
    paths: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        paths[move.bundle].append(move)
    return list(paths.values())


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
    spread, predicted, seen = map(np.ptp, (before[there], (before + changed)[there], after[there]))
    return bool(spread - seen < USELESS * (spread - predicted))


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

"""Difference between the predicted usage of brokers and the measured one."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

from rebalancer.simulation.timeline import Move, Timeline

#: For one statistics period after a move, figures mix the time before and after it.
SEEN_AFTER = 2


def prediction_error(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Mean difference in points. Counts a round's last prediction per broker, unless the broker changed again before the measurement."""
    column = {broker: number for number, broker in enumerate(timeline.brokers)}
    touched: dict[str, set[int]] = {}
    forecast: dict[tuple[int, str], float] = {}
    for move in moves:
        for broker, usage in ((move.source, move.expected.source_after), (move.destination, move.expected.destination_after)):
            if broker is not None and broker in column:
                touched.setdefault(broker, set()).add(move.round)
                if usage is not None:
                    forecast[move.round, broker] = usage
    errors = [
        abs(usage - float(timeline.usage[round_ + SEEN_AFTER, column[broker]]))
        for (round_, broker), usage in forecast.items()
        if round_ + SEEN_AFTER < timeline.rounds and not touched[broker] & {round_ + 1, round_ + 2}
    ]
    known = [error for error in errors if isfinite(error)]
    return 100 * sum(known) / len(known) if known else nan

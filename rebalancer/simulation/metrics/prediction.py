"""How far forecasts were from what was seen afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

from rebalancer.simulation.timeline import Move, Timeline

#: The first figures after a move are wrong for one statistics period.
SEEN_AFTER = 2


def prediction_error(timeline: Timeline, moves: Sequence[Move]) -> float:
    """Mean distance in points; a round's last forecast for a broker counts, unless the broker was touched again before it could be seen."""
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

"""Summary figures of a run: how even load was, the moves this took, and whether they ended."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.simulation.metrics import moves as figures_of_moves
from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.bundles import Floats

#: Legend of the columns about what moves brought.
FORESIGHT = (
    "returns: moves that took a bundle back within an hour; useless: moves that brought less than "
    "a tenth of the expected fall of the spread; error: between expected and measured usage after "
    "moves, in points"
)


def points(value: float) -> str:
    """`8.4 points`; a dash for an unknown value."""
    return "–" if isnan(value) else f"{value:.1f} points"


def count(value: float) -> str:
    """A whole number; a dash for an unknown one."""
    return "–" if isnan(value) else f"{value:,.0f}"


def share(value: float) -> str:
    """A fraction as whole percent; 0 % and 100 % only if exact."""
    percent = 100.0 * value
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def duration(milliseconds: int) -> str:
    """`45 min`, `3.5 h`, `30 days`."""
    minutes = milliseconds / 60_000
    if minutes < 120:
        return f"{max(1, round(minutes))} min"
    hours = minutes / 60
    return (
        f"{hours:.1f} h".replace(".0", "")
        if hours < 48
        else f"{hours / 24:.1f} days".replace(".0", "")
    )


@dataclass(frozen=True)
class Summary:
    """Figures of one run. Spreads in points (percent of usage), NaN for rounds without brokers."""

    run: Timeline

    @cached_property
    def spread(self) -> Floats:
        """float64[rounds], points."""
        return 100.0 * self.run.spread()

    @property
    def first_spread(self) -> float:
        return _first(self.spread)

    @property
    def last_spread(self) -> float:
        return _first(self.spread[::-1])

    @property
    def most_spread(self) -> float:
        """The largest spread of a round."""
        return _of_known(np.nanmax, self.spread)

    @property
    def mean_spread(self) -> float:
        return _of_known(np.nanmean, self.spread)

    @property
    def highest_usage(self) -> float:
        """Highest usage of a broker in a round, in percent."""
        return 100.0 * _of_known(np.nanmax, self.run.usage)

    @property
    def most_brokers(self) -> int:
        """The largest number of brokers that took part in a round."""
        return int(np.isfinite(self.run.usage).sum(axis=1).max()) if self.run.rounds else 0

    @property
    def deserted_row(self) -> int | None:
        """The first row after the last round with brokers; None if the last round has some."""
        there = np.flatnonzero(np.isfinite(self.run.usage).any(axis=1))
        row = int(there[-1]) + 1 if len(there) else 0
        return row if row < self.run.rounds else None

    @property
    def least_at_end(self) -> float:
        """Usage of the emptiest broker in the last round, in percent."""
        return 100.0 * _of_known(np.nanmin, self.run.usage[-1])

    @property
    def reached_share(self) -> float:
        """Part (0–1) of the rounds that met the strategy's goal."""
        return float(self.run.reached.mean()) if self.run.rounds else 0.0

    @property
    def met_goal_at_end(self) -> bool:
        return bool(self.run.rounds and self.run.reached[-1])

    @cached_property
    def settled_row(self) -> int | None:
        """The row from which on all rounds met the goal; None if the last one did not."""
        if not self.met_goal_at_end:
            return None
        unhappy = np.flatnonzero(~self.run.reached)
        return int(unhappy[-1]) + 1 if len(unhappy) else 0

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        return self.run.moved()

    @property
    def commands(self) -> int:
        """Number of commanded moves, whatever their outcomes are."""
        return sum(move.kind in ("unload", "transfer") for move in self.run.moves)

    @property
    def traffic(self) -> float:
        """Sum of the bytes/s that changed brokers; NaN if the traffic of no move is known."""
        return figures_of_moves.traffic_moved(self.moves) if self.moves else float("nan")

    @property
    def days(self) -> float:
        span = int(self.run.times_ms[-1] - self.run.times_ms[0]) if self.run.rounds else 0
        return (span + self.run.interval_ms) / 86_400_000

    @cached_property
    def repeated(self) -> int:
        """Number of bundles that moved more than once."""
        return figures_of_moves.moved_twice(self.moves)

    @cached_property
    def returned(self) -> int:
        """Number of moves that returned a bundle to the broker that its previous move took it
        from.
        """
        return figures_of_moves.back_and_forth(self.moves)

    @cached_property
    def returns(self) -> float:
        """Number of moves that returned a bundle within the rest time; NaN for recorded reports,
        in which bundles do not move.
        """
        return nan if self.run.kind == "recorded" else float(figures_of_moves.returns(self.moves))

    @cached_property
    def prediction_error(self) -> float:
        """Mean difference of expected and measured usage, in points."""
        return figures_of_moves.prediction_error(self.run, self.moves)

    @cached_property
    def useless_moves(self) -> float:
        """Number of moves that brought less than a tenth of the predicted gain."""
        return figures_of_moves.useless_moves(self.run, self.moves)

    def as_json(self) -> dict[str, Any]:
        """Figures for JSON; None for unknown ones."""
        figures = {
            "spread_first_points": self.first_spread,
            "spread_last_points": self.last_spread,
            "spread_mean_points": self.mean_spread,
            "highest_usage_percent": self.highest_usage,
            "traffic_moved_bytes_per_s": self.traffic,
            "prediction_error_points": self.prediction_error,
            "useless_moves": self.useless_moves,
            "returns": self.returns,
        }
        known = {name: None if isnan(value) else round(value, 6) for name, value in figures.items()}
        counts = {
            "rounds": self.run.rounds,
            "rounds_within_goal": int(self.run.reached.sum()),
            "commands": self.commands,
        }
        return {
            **counts,
            **known,
            "moved": len(self.moves),
            "moved_again": self.repeated,
            "moved_back": self.returned,
        }


def _of_known(figure: Callable[[Floats], float], values: Floats) -> float:
    """The figure of these values; NaN if none is known."""
    return float(figure(values)) if np.isfinite(values).any() else nan


def _first(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known[0]) if len(known) else float("nan")

"""What one run did to the clients of a cluster, and when."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from typing import Any

from pulsar_rebalancer.lab.report.summary import Summary
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from strategies.ordered_sum import ordered_sum


@dataclass(frozen=True)
class RunEffects:
    """Figures of a run beside those of its summary."""

    run: Timeline

    @cached_property
    def summary(self) -> Summary:
        """Evenness and moves, as a back-test has them."""
        return Summary(self.run)

    @property
    def moves(self) -> int:
        """Number of moves."""
        return len(self.summary.moves)

    @property
    def per_day(self) -> float:
        """Moves a day; NaN for less than a day, from which none follow."""
        return self.moves / self.summary.days if self.summary.days >= 1 else nan

    @property
    def bundles(self) -> int:
        """Number of different bundles that moved."""
        return len({move.bundle for move in self.summary.moves})

    @property
    def clients(self) -> float:
        """Producers and consumers that reconnected: those of each bundle before each of its moves;
        NaN if no number is known.
        """
        known = [move.clients for move in self.summary.moves if not isnan(move.clients)]
        return ordered_sum(known) if known or not self.moves else nan

    @property
    def first_ms(self) -> int | None:
        """Time of the first round with a move."""
        return min((self._time(one.round) for one in self.summary.moves), default=None)

    @property
    def busiest(self) -> tuple[int, int] | None:
        """Time and number of moves of the round with the most of them."""
        by_round = Counter(move.round for move in self.summary.moves)
        if not by_round:
            return None
        row = min(by_round, key=lambda row: (-by_round[row], row))
        return self._time(row), by_round[row]

    def as_json(self) -> dict[str, Any]:
        """Figures for JSON; None for unknown ones."""
        when = self.busiest
        return {
            "moves_per_day": None if isnan(self.per_day) else round(self.per_day, 6),
            "bundles_moved": self.bundles,
            "clients_disturbed": None if isnan(self.clients) else round(self.clients),
            "first_move_at_ms": self.first_ms,
            "most_moves_in_a_round": 0 if when is None else when[1],
            "most_moves_at_ms": None if when is None else when[0],
        }

    def _time(self, row: int) -> int:
        return int(self.run.times_ms[row])

"""Tries settings on the first part of a recording, keeps those that no other beats, and tests these
on the rest.

There are two costs: imbalance (mean spread of the brokers' usage) and churn (bundles moved a day).
Settings beat others if they are better in one and not worse in the other. Settings chosen on one
part of the data are judged by their costs on the other part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from math import inf, isnan
from pathlib import Path
from typing import Any

from pulsar_rebalancer.lab.backtest.run import BacktestJob, BacktestResult
from pulsar_rebalancer.lab.report.timeline_summary import Summary
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from pulsar_rebalancer.settings.merge_sources import Settings
from strategies.ordered_sum import ordered_sum
from strategies.shedding.contract import SheddingStrategy

#: Spreads that differ by less than this, in points, are equal.
_ALIKE = 0.05


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs on one part of the recording, for all clusters together. `spread`: points; `moves`:
    per day; `rounds`: amount of data.
    """

    spread: float
    moves: float
    rounds: int
    days: float

    def beats(self, other: "Cost") -> bool:
        """Whether this cost is better in one figure and not worse in the other."""
        no_worse = self.spread <= other.spread + _ALIKE and self.moves <= other.moves
        return no_worse and (self.spread < other.spread - _ALIKE or self.moves < other.moves)


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings with their costs on the training part, and on the test part if they were tested."""

    changes: tuple[str, ...]
    settings: Settings
    training: Cost
    test: Cost | None = None
    lines: tuple[Timeline, ...] = ()

    @property
    def title(self) -> str:
        return _name(self.changes)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`current` settings, and the `best` of the front, None if none is better on the test part;
    `front`: by spread, without `current`.
    """

    current: Trial
    front: tuple[Trial, ...]
    best: Trial | None
    tried: int
    split_ms: int


def drawn(strategy: SheddingStrategy, count: int, seed: int) -> list[tuple[str, ...]]:
    """At most `count` different sets of `path=value`, drawn uniformly from the settings that decide
    when the strategy acts and how much it moves; equal seeds draw equal sets.
    """
    every = product(
        *(
            [f"shedding.{strategy.name}.{key}={value}" for value in values]
            for key, values in strategy.tuning.items()
        )
    )
    return sorted(
        every,
        key=lambda one: blake2b("\x1f".join((str(seed), *one)).encode(), digest_size=8).digest(),
    )[:count]


def search(
    recording: Path,
    current: Settings,
    trials: Sequence[tuple[tuple[str, ...], Settings]],
    split_ms: int,
    run_all: Callable[[Sequence[BacktestJob], Callable[[BacktestResult], Any]], list[Any]],
) -> SearchResult:
    """Runs the search. `split_ms`: end of the training part. Every trial is a closed loop.
    `run_all`: runs jobs and returns what its second argument keeps of each answer, because the
    answers of a month are too large to keep. Raises SinkError.
    """
    jobs = [
        BacktestJob(recording, _name(changes), settings, "closed", None, split_ms)
        for changes, settings in [((), current), *trials]
    ]
    first, *others = (
        Trial(changes, settings, cost)
        for (changes, settings), cost in zip(
            [((), current), *trials], run_all(jobs, _cost), strict=True
        )
    )
    front = sorted(
        _front([first, *others]), key=lambda one: (one.training.spread, one.training.moves)
    )
    again = [first, *(one for one in front if one is not first)]
    tests = run_all(
        [
            BacktestJob(recording, one.title, one.settings, "closed", split_ms, None)
            for one in again
        ],
        _cost_and_lines,
    )
    seen = [
        replace(one, test=cost, lines=lines)
        for one, (cost, lines) in zip(again, tests, strict=True)
    ]
    return SearchResult(seen[0], tuple(seen[1:]), _best(seen[0], seen[1:]), len(trials), split_ms)


def _best(current: Trial, front: Sequence[Trial]) -> Trial | None:
    """The trial that beats the current settings on both parts and has the lowest spread on the test
    part.
    """
    now = current.test
    better = [
        one
        for one in front
        if now is not None
        and one.test is not None
        and one.test.beats(now)
        and one.training.beats(current.training)
    ]
    return min(
        better,
        key=lambda one: (one.test.spread if one.test else inf, one.training.moves),
        default=None,
    )


def _front(trials: Sequence[Trial]) -> list[Trial]:
    kept: list[Trial] = []
    for one in trials:
        alike = any(other.training == one.training for other in kept)
        if not alike and not any(other.training.beats(one.training) for other in trials):
            kept.append(one)
    return kept


def _cost(answer: BacktestResult) -> Cost:
    runs = [Summary(line) for line in answer.timelines if line.rounds]
    rounds = ordered_sum(run.run.rounds for run in runs)
    if not rounds:
        return Cost(inf, inf, 0, 0.0)
    spreads = [(run.mean_spread, run.run.rounds) for run in runs if not isnan(run.mean_spread)]
    days = max(run.days for run in runs)
    spread = ordered_sum(value * weight for value, weight in spreads) / max(
        1, ordered_sum(weight for _, weight in spreads)
    )
    return Cost(spread, sum(len(run.moves) for run in runs) / days, rounds, days)


def _cost_and_lines(answer: BacktestResult) -> tuple[Cost, tuple[Timeline, ...]]:
    return _cost(answer), answer.timelines


def _name(changes: tuple[str, ...]) -> str:
    return ", ".join(map(short, changes)) or "current settings"


def short(change: str) -> str:
    """A change without its section."""
    path, _, value = change.partition("=")
    return f"{path.rpartition('.')[2]}={value}"

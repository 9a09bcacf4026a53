"""`rebalancer tune`: better settings are only called better if they are on data that the search did
not see.
"""

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from pulsar_rebalancer.lab.backtest.run import BacktestJob, BacktestResult
from pulsar_rebalancer.lab.command_runs.tune import sentence
from pulsar_rebalancer.lab.simulation.timeline import Move
from pulsar_rebalancer.lab.tune.search import SearchResult, drawn, search
from pulsar_rebalancer.settings.merge_sources import load
from strategies.shedding.registry import SHEDDERS
from tests.world.timelines import A, B, a_run

T = TypeVar("T")
#: Title of a job → spread in points and moves on the training part, the same on the test part.
Costs = dict[str, tuple[float, int, float, int]]


def answered(spread: float, moves: int, rounds: int) -> BacktestResult:
    usage = np.full((rounds, 2), 0.5)
    usage[:, 0] += spread / 100
    moved = [Move(0, 0, f"t/n/{number}", A, B, "transfer") for number in range(moves)]
    return BacktestResult((a_run(usage, moved, kind="re-assigned"),), 0, 0, 0)


def found(costs: Costs, rounds: int = 1440) -> SearchResult:
    def run(jobs: Sequence[BacktestJob], keep: Callable[[BacktestResult], T]) -> list[T]:
        def part(job: BacktestJob) -> BacktestResult:
            training, test = costs[job.title][:2], costs[job.title][2:]
            return answered(*training if job.since_ms is None else test, rounds)

        return [keep(part(job)) for job in jobs]

    settings = load()
    sets = [((f"shedding.avg.{title}",), settings) for title in costs]
    costs = costs | {"current settings": (10.0, 5, 10.0, 5)}
    return search(Path("never-read"), settings, sets, 0, run)


def test_what_is_better_on_both_parts_is_best() -> None:
    one = found({"low_threshold=5": (6.0, 4, 7.0, 4), "low_threshold=8": (8.0, 4, 8.0, 4)})
    assert one.best is not None
    assert one.best.title == "low_threshold=5"
    assert "1,440 test rounds (24 h)" in sentence(one)
    assert "7.0 points instead of 10.0" in sentence(one)


def test_what_is_better_on_the_training_part_alone_is_not() -> None:
    one = found({"low_threshold=5": (6.0, 4, 11.0, 4)})
    assert one.best is None
    assert sentence(one).startswith("Keep the current settings")


def test_the_front_holds_what_no_other_beats() -> None:
    costs = {"low=1": (4.0, 9, 4.0, 9), "low=2": (12.0, 1, 12.0, 1), "low=3": (11.0, 6, 1.0, 0)}
    assert [one.title for one in found(costs).front] == ["low=1", "low=2"]


def test_little_data_is_said_to_be_little() -> None:
    one = found({"low_threshold=5": (6.0, 4, 7.0, 4)}, rounds=20)
    assert "too little to rely on" in sentence(one)


def test_a_seed_draws_the_same_sets_and_another_one_others() -> None:
    avg = SHEDDERS["avg"]
    assert drawn(avg, 10, 1) == drawn(avg, 10, 1) != drawn(avg, 10, 2)
    every = drawn(avg, 10_000, 1)
    assert len(set(every)) == len(every) == prod(map(len, avg.tuning.values()))


@pytest.mark.parametrize("strategy", sorted(SHEDDERS))
def test_everything_that_may_be_tried_is_a_legal_setting(strategy: str) -> None:
    known = load(flags=[f"shedding.strategy={strategy}"])
    assert SHEDDERS[strategy].tuning
    for name, values in SHEDDERS[strategy].tuning.items():
        assert known.value(f"shedding.{strategy}.{name}") in values
    for changes in drawn(SHEDDERS[strategy], 10, 1):
        load(flags=changes)

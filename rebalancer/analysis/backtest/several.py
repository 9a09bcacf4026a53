"""Several back-tests of one recording at once: a few share a process and read the file together; answers come as they were asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

from rebalancer.analysis.backtest.run import BacktestJob, BacktestResult, run_together
from rebalancer.analysis.processes import run_each

T = TypeVar("T")
#: So many runs share a process at most: reading takes longer than any of them, but every one of a month keeps 300 MiB.
_TOGETHER = 3


def run_all(
    jobs: Sequence[BacktestJob], say: Callable[[str], None], keep: Callable[[BacktestResult], T], workers: int | None = None
) -> list[T]:
    """What `keep` makes of each answer, in the process that has it. All jobs are of one recording and one part of it.

    As many processes at a time as there are cores. Raises what `run` raises.
    """
    processes, done = workers or os.cpu_count() or 1, count(1)
    groups = list(_groups(len(jobs), processes))

    def told(place: int, answers: list[tuple[str, T]]) -> None:
        for said, _ in answers:
            say(f"{next(done)} of {len(jobs)}: {said}" if len(jobs) > 1 else said)

    kept = run_each([partial(_together, [jobs[place] for place in group], keep) for group in groups], processes, told)
    by_place = {place: one for group, ones in zip(groups, kept, strict=True) for place, (_, one) in zip(group, ones, strict=True)}
    return [by_place[place] for place in range(len(jobs))]


def _groups(jobs: int, processes: int) -> Iterator[range]:
    """Places of jobs, spread over as many groups as keep all processes busy and none too full."""
    rounds = -(-jobs // (processes * _TOGETHER))
    groups = min(jobs, processes * rounds)
    return (range(first, jobs, groups) for first in range(groups))


def _together(jobs: Sequence[BacktestJob], keep: Callable[[BacktestResult], T]) -> list[tuple[str, T]]:
    return [(_said(job, answer), keep(answer)) for job, answer in zip(jobs, run_together(jobs), strict=True)]


def _said(job: BacktestJob, answer: BacktestResult) -> str:
    rounds = sum(line.rounds for line in answer.timelines)
    return f"{job.title}: {rounds} rounds of {answer.records} records"

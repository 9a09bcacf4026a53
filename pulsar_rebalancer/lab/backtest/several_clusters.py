"""Several back-tests of one recording in parallel: a few share a process and read the file
together; answers keep the order of the jobs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

from pulsar_rebalancer.lab.backtest.run import BacktestJob, BacktestResult, run_together
from pulsar_rebalancer.lab.processes import run_each
from strategies.ordered_sum import ordered_sum

T = TypeVar("T")
#: Maximum number of runs per process: reading takes longer than one run, but each run of a month
#: keeps 300 MiB.
_TOGETHER = 3


def run_all(
    jobs: Sequence[BacktestJob],
    say: Callable[[str], None],
    keep: Callable[[BacktestResult], T],
    workers: int | None = None,
) -> list[T]:
    """The results of `keep`, which is called on each answer in its process. All jobs are on the
    same part of one recording.

    Runs one process per core. Raises what `run` raises.
    """
    processes, done = workers or os.cpu_count() or 1, count(1)
    groups = list(_groups(len(jobs), processes))

    def report(place: int, answers: list[tuple[str, T]]) -> None:
        for said, _ in answers:
            say(f"{next(done)} of {len(jobs)}: {said}" if len(jobs) > 1 else said)

    kept = run_each(
        [partial(_together, [jobs[place] for place in group], keep) for group in groups],
        processes,
        report,
    )
    by_place = {
        place: one
        for group, ones in zip(groups, kept, strict=True)
        for place, (_, one) in zip(group, ones, strict=True)
    }
    return [by_place[place] for place in range(len(jobs))]


def whole(answer: BacktestResult) -> BacktestResult:
    """Keeps all of an answer."""
    return answer


def _groups(jobs: int, processes: int) -> Iterator[range]:
    """Places of jobs in groups, which keep all processes busy and are not too large for one."""
    rounds = -(-jobs // (processes * _TOGETHER))
    groups = min(jobs, processes * rounds)
    return (range(first, jobs, groups) for first in range(groups))


def _together(
    jobs: Sequence[BacktestJob], keep: Callable[[BacktestResult], T]
) -> list[tuple[str, T]]:
    return [
        (_said(job, answer), keep(answer))
        for job, answer in zip(jobs, run_together(jobs), strict=True)
    ]


def _said(job: BacktestJob, answer: BacktestResult) -> str:
    rounds = ordered_sum(line.rounds for line in answer.timelines)
    return f"{job.title}: {rounds} rounds of {answer.records} records"

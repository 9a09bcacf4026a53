"""Several back-tests at once, one process each; the answers come in the order they were asked in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from cli.backtest.run import Answer, Job, run
from cli.processes import run_each


def run_all(jobs: Sequence[Job], say: Callable[[str], None], workers: int | None = None) -> list[Answer]:
    """Each in a process of its own, as many at a time as there are cores. Raises what `run` raises."""

    def told(place: int, answer: Answer) -> None:
        rounds = sum(line.rounds for line in answer.timelines)
        say(f"{jobs[place].title}: {rounds} rounds of {answer.records} records")

    return run_each([partial(run, job) for job in jobs], workers or os.cpu_count() or 1, told)

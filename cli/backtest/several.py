"""Several back-tests at once, one process each; the answers come in the order they were asked in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

from cli.backtest.run import Answer, Job, run


def run_all(jobs: Sequence[Job], say: Callable[[str], None], workers: int | None = None) -> list[Answer]:
    """Each in a process of its own, as many at a time as there are cores. Raises what `run` raises."""
    at_once = min(len(jobs), workers or os.cpu_count() or 1)
    if at_once <= 1:
        return [_told(job, run(job), say) for job in jobs]
    # Spawned, not forked: pyarrow's threads do not survive a fork.
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        futures: list[tuple[Job, Future[Answer]]] = [(job, pool.submit(run, job)) for job in jobs]
        return [_told(job, future.result(), say) for job, future in futures]


def _told(job: Job, answer: Answer, say: Callable[[str], None]) -> Answer:
    rounds = sum(line.rounds for line in answer.timelines)
    say(f"{job.title}: {rounds} rounds of {answer.records} records")
    return answer

"""Makes runs, in this process or in several; the answers come in the order of the wishes, whoever is done first."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial

from cli.simulate.wishes import Wish
from simulation.metrics.figures import Figures
from simulation.running import run
from simulation.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a wish; the timeline only where it was asked for."""

    wish: Wish
    scenario: str
    label: str
    figures: Figures
    backlog: float
    timeline: Timeline | None = None


def make(wish: Wish, keep: bool = False) -> Made:
    """One run."""
    task = wish.task()
    done = run(task)
    return Made(wish, task.named.name, task.label, done.figures, done.backlog, done.timeline if keep else None)


def make_all(wishes: Sequence[Wish], jobs: int, advance: Callable[[], None], keep: Callable[[Wish], bool] = lambda _: False) -> list[Made]:
    """All runs. `advance` is called after each; `keep`: whose timelines are wanted."""
    kept = [keep(wish) for wish in wishes]
    if jobs == 1 or len(wishes) == 1:
        made = []
        for wish, wanted in zip(wishes, kept, strict=True):
            made.append(make(wish, wanted))
            advance()
        return made
    # A process that starts from nothing shares nothing: no thread of this one is copied in the middle of something.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(jobs, len(wishes)), mp_context=context) as pool:
        futures = [pool.submit(partial(make, wish, wanted)) for wish, wanted in zip(wishes, kept, strict=True)]
        for _ in as_completed(futures):
            advance()
        return _results(futures)


def _results(futures: Sequence[Future[Made]]) -> list[Made]:
    return [future.result() for future in futures]

"""Makes runs, in this process or in several; the answers come in the order of the wishes, whoever is done first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rebalancer.analysis.processes import run_each
from rebalancer.analysis.simulate.run_requests import Wish
from rebalancer.simulation.metrics.figures import Figures
from rebalancer.simulation.run import run
from rebalancer.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a wish; the timeline only where it was asked for. `backlog`: messages that nobody had read at the end.

    `limited`: whether the scenario states dispatch limits.
    """

    wish: Wish
    scenario: str
    label: str
    figures: Figures
    backlog: float
    limited: bool
    timeline: Timeline | None = None


def make(wish: Wish, keep: bool = False) -> Made:
    """One run."""
    task = wish.task()
    done = run(task)
    return Made(
        wish, task.named.name, task.label, done.figures, done.backlog, done.world.dispatching is not None, done.timeline if keep else None
    )


def make_all(wishes: Sequence[Wish], jobs: int, advance: Callable[[], None], keep: Callable[[Wish], bool] = lambda _: False) -> list[Made]:
    """All runs. `advance` is called after each; `keep`: whose timelines are wanted."""
    return run_each([partial(make, wish, keep(wish)) for wish in wishes], jobs, lambda _place, _made: advance())

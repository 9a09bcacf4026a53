"""Performs runs, in this process or in several; results are in the order of the requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pulsar_rebalancer.lab.processes import run_each
from pulsar_rebalancer.lab.simulate.run_requests import RunRequest
from pulsar_rebalancer.lab.simulation.metrics.figures import RunFigures
from pulsar_rebalancer.lab.simulation.metrics.operations import Operation
from pulsar_rebalancer.lab.simulation.run import run
from pulsar_rebalancer.lab.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a requested run, with its timeline if that is kept. `backlog`: unread messages
    at the end.

    `limited`: whether the scenario states dispatch limits; `operations`: its drains and rolls.
    """

    request: RunRequest
    scenario: str
    label: str
    figures: RunFigures
    backlog: float
    limited: bool
    timeline: Timeline | None = None
    operations: tuple[Operation, ...] = ()


def make(request: RunRequest, keep: bool = False) -> Made:
    """Performs one run. `keep`: keeps its timeline."""
    task = request.task()
    done = run(task)
    return Made(
        request,
        task.named.name,
        task.label,
        done.figures,
        done.backlog,
        done.world.dispatching is not None,
        done.timeline if keep else None,
        done.operations,
    )


def make_all(
    requests: Sequence[RunRequest],
    jobs: int,
    advance: Callable[[], None],
    keep: Callable[[RunRequest], bool] = lambda _: False,
) -> list[Made]:
    """Performs all runs. Calls `advance` after each; `keep`: requests whose timelines are kept."""
    return run_each(
        [partial(make, request, keep(request)) for request in requests],
        jobs,
        lambda _place, _made: advance(),
    )

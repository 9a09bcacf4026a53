"""Runs of many simulations, with the number of finished ones said meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from benchmarks.figures import say
from benchmarks.uncertified import UNCERTIFIED
from pulsar_rebalancer.lab.processes import run_each
from pulsar_rebalancer.lab.requested_runs import RunRequest
from pulsar_rebalancer.lab.simulation.scenario_loop import SimulatedRun, run

Result = TypeVar("Result")


def counted_runs(tasks: Sequence[Callable[[], Result]], jobs: int) -> list[Result]:
    """The results of the tasks, in their order, from this number of processes."""
    done = 0

    def count(_: int, __: Result) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0 or done == len(tasks):
            say(f"{done} of {len(tasks)} runs")

    return run_each(tasks, jobs, count)


def uncertified_run(request: RunRequest) -> SimulatedRun:
    """A run whose rounds have no certificates."""
    task = request.task()
    return run(replace(task, settings=replace(task.settings, shedders=UNCERTIFIED)))

"""Runs a demo from its first report to its last round, and stops all its processes however it
ends.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from pulsar_rebalancer.lab.demo.installation import open_decider
from pulsar_rebalancer.lab.demo.plan import BUNDLES, DemoPlan
from pulsar_rebalancer.lab.demo.result import Result, is_settled
from pulsar_rebalancer.lab.goal import Goal
from pulsar_rebalancer.lab.simulation.closed_loop import Step, closed_loop
from pulsar_rebalancer.lab.simulation.clusters.skewed import skewed_cluster
from sinks.stopping import handling
from strategies.fold.engine import EngineSettings


class DemoProgress(Protocol):
    """Receives the steps of a running demo."""

    def wait(self, text: str) -> None: ...
    def step(self, step: Step) -> None: ...


def run_demo(
    plan: DemoPlan, settings: EngineSettings, goal: Goal, progress: DemoProgress
) -> Result:
    """Runs the demo. Raises ChildFailed or PublishTimeout when the job fails, KeyboardInterrupt
    when the demo is stopped.
    """
    began, steps = time.monotonic(), list[Step]()
    cluster = skewed_cluster(plan.cluster, plan.seed, BUNDLES)

    def say(line: str) -> None:
        progress.wait(f"Starting the Spark job: {line} …")

    with stoppable(), open_decider(plan, settings, cluster, say) as decider:
        if plan.engine == "spark":
            progress.wait("Starting the Spark job, which takes 15 to 30 seconds …")
        try:
            for step in closed_loop(cluster, decider):
                steps.append(step)
                progress.step(step)
                if len(steps) == plan.rounds or is_settled(steps, goal):
                    break
        finally:
            if plan.engine == "spark":
                progress.wait("Stopping the Spark job …")
    return Result(plan, goal, BUNDLES, tuple(steps), time.monotonic() - began)


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does: every `with` block is left properly.

    SIGINT is set as well, because a shell starts background processes with SIGINT ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with handling(interrupt, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield

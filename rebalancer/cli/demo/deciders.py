"""Who decides in the demo: the streaming job at the other end of file topics, or the plain loop in this process.

Both get the same bytes from the same topics and leave the same files behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from rebalancer.cli.demo.job import JobProcess
from rebalancer.cli.demo.plan import Plan
from rebalancer.cli.demo.topics import DemoTopics
from rebalancer.simulation.loop import Answer, Decider
from rebalancer.simulation.telemetry import Observation
from sinks.plain_loop import PlainLoop
from strategies.engine import EngineSettings
from strategies.errors import ContractError, PublishTimeout

#: How long the job may take for its first answer, which includes starting Spark, and for every other.
FIRST_ANSWER_SECONDS = 240.0
ANSWER_SECONDS = 90.0
POLL_SECONDS = 0.02


@contextmanager
def open_decider(plan: Plan, settings: EngineSettings) -> Iterator[Decider]:
    """Whoever decides in this run; the job's process ends with the context."""
    with closing(DemoTopics(plan)) as topics:
        if plan.engine == "plain":
            yield PlainDecider(topics, settings)
        else:
            with JobProcess(plan.settings_file, plan.log) as job:
                yield JobDecider(topics, job)


class PlainDecider:
    """The same fold without Spark, over the same topics."""

    def __init__(self, topics: DemoTopics, settings: EngineSettings) -> None:
        self._topics, self._loop = topics, PlainLoop(settings)

    def decide(self, observations: Sequence[Observation]) -> Answer:
        self._topics.publish(observations)
        rows = [row for record in self._topics.read("telemetry") for row in self._loop.feed(record.position, record.value, record.size)]
        self._topics.publish_rows(rows)
        answer = self._topics.answer(_ts(observations))
        if answer is None:
            raise ContractError("the plain loop held no round at the end of a collection pass: this is a bug, please report it")
        return answer


class JobDecider:
    """Waits for the job's answer, and notices when the job is gone."""

    def __init__(self, topics: DemoTopics, job: JobProcess) -> None:
        self._topics, self._job, self._patience = topics, job, FIRST_ANSWER_SECONDS

    def decide(self, observations: Sequence[Observation]) -> Answer:
        self._topics.publish(observations)
        gives_up = time.monotonic() + self._patience
        while (answer := self._topics.answer(_ts(observations))) is None:
            self._job.check()
            if time.monotonic() > gives_up:
                raise PublishTimeout(f"the Spark job has not answered for {self._patience:.0f} s; its log is {self._job.log}")
            time.sleep(POLL_SECONDS)
        self._patience = ANSWER_SECONDS
        return answer


def _ts(observations: Sequence[Observation]) -> int:
    """Rounds close at the sweep that ends a collection pass."""
    return observations[-1].ts

"""The two engines of the demo: the streaming job, which reads the demo's topics, or the plain loop
in this process.

Both read the same bytes from the same topics and write the same files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from rebalancer.cli.demo.job import JobProcess
from rebalancer.cli.demo.plan import Plan
from rebalancer.cli.demo.topics import DemoTopics
from rebalancer.simulation.closed_loop import Decider, PolledCluster, RoundAnswer
from sinks.plain_loop import PlainLoop
from strategies.engine import EngineSettings
from strategies.errors import ContractError, PublishTimeout
from strategies.model import TelemetryRecord

#: Maximum time for the job's first answer, which includes the start of Spark, and for every later
#: one.
FIRST_ANSWER_SECONDS = 240.0
ANSWER_SECONDS = 90.0
POLL_SECONDS = 0.02


@contextmanager
def open_decider(plan: Plan, settings: EngineSettings, cluster: PolledCluster) -> Iterator[Decider]:
    """The engine that decides in this run; the job's process ends with the context."""
    with closing(DemoTopics(plan, cluster)) as topics:
        if plan.engine == "plain":
            yield PlainDecider(topics, settings)
        else:
            with JobProcess(plan.settings_file, plan.log) as job:
                yield JobDecider(topics, job)


class PlainDecider:
    """The plain loop: folds the records of the demo's topics in this process, without Spark."""

    def __init__(self, topics: DemoTopics, settings: EngineSettings) -> None:
        self._topics, self._loop = topics, PlainLoop(settings)

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        self._topics.publish(records)
        rows = [
            row
            for record in self._topics.read("telemetry")
            for row in self._loop.feed(record.position, record.value, record.size)
        ]
        self._topics.publish_rows(rows)
        answer = self._topics.answer(_ts(records))
        if answer is None:
            raise ContractError(
                "the plain loop closed no round at the end of a collection pass: this is a "
                "bug, please report it"
            )
        return answer


class JobDecider:
    """Waits for the job's answer, and raises when the job's process has ended."""

    def __init__(self, topics: DemoTopics, job: JobProcess) -> None:
        self._topics, self._job, self._patience = topics, job, FIRST_ANSWER_SECONDS

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        self._topics.publish(records)
        gives_up = time.monotonic() + self._patience
        while (answer := self._topics.answer(_ts(records))) is None:
            self._job.check()
            if time.monotonic() > gives_up:
                raise PublishTimeout(
                    f"the Spark job has not answered for {self._patience:.0f} s; its log is "
                    f"{self._job.log}"
                )
            time.sleep(POLL_SECONDS)
        self._patience = ANSWER_SECONDS
        return answer


def _ts(records: Sequence[TelemetryRecord]) -> int:
    """Rounds close at the sweep that ends a collection pass."""
    return records[-1].ts

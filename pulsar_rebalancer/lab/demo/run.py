"""Runs the demo: its topics, what decides in it, when it ends, and what it prints and writes.

The streaming job decides, which reads the demo's topics, or the plain loop in this process: both
read the same bytes from the same topics and write the same files. `DemoTopics` is the demo's side
of the topics: it writes telemetry and outcomes, and reads rounds and commands.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from pulsar_rebalancer.cli import console, exit_codes
from pulsar_rebalancer.cli.child_process import ChildProcess, rebalancer_command
from pulsar_rebalancer.lab.demo.plan import (
    BUNDLES,
    CLUSTER,
    TOPICS,
    DemoPlan,
    write_settings,
)
from pulsar_rebalancer.lab.demo.result import Result, write_demo_report
from pulsar_rebalancer.lab.demo.screen import Screen, open_screen
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.lab.simulation.clock import PERIOD_MS
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    Decider,
    PolledCluster,
    RoundAnswer,
    closed_loop,
    outcome_reports,
)
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from pulsar_rebalancer.lab.strategy_goal import Goal, goal_of
from pulsar_rebalancer.settings.merge_sources import load
from sinks.graceful_stop import handling
from sinks.topics.files.topic import TopicRecord
from sinks.topics.kafka.settings import KafkaSettings, kafka_access
from sinks.topics.open_topics import open_publisher, open_reader
from sinks.topics.topic_admin import TopicPlan, create_topic
from sinks.topics.topic_settings import NO_SECURITY, TopicAccess, TopicUri
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import decode_command, decode_round
from sinks.wire.record_encoding import encode_outcome
from strategies.cluster.model import Command, OutcomeReport, Round, TelemetryRecord
from strategies.errors import PublishTimeout
from strategies.fold.engine import EngineSettings
from streaming.start_lines import StartNews

#: Maximum time for the job's first answer, which includes the start of Spark on a busy machine (the
#: job itself tries for job.start_timeout_ms), and for every later one.
FIRST_ANSWER_SECONDS = 1_200.0
ANSWER_SECONDS = 300.0
POLL_SECONDS = 0.02
#: The strategy's goal must be reached for this many rounds without a command before the demo ends
#: early.
QUIET_ROUNDS = 2


@contextmanager
def open_decider(
    plan: DemoPlan,
    settings: EngineSettings,
    cluster: PolledCluster,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Decider]:
    """The engine that decides in this run; the job's process ends with the context. `say`: gets
    the lines of a job that starts.
    """
    access = TopicAccess(plan.kafka.settings if plan.kafka else KafkaSettings())
    uris = {name: plan.topic_uri(name) for name in TOPICS}
    for uri in uris.values() if plan.kafka else ():
        create_topic(uri, TopicPlan(), kafka_access(access.kafka))
    with closing(DemoTopics(uris, cluster, access)) as topics:
        if plan.engine == "plain":
            yield PlainDecider(topics, settings)
        else:
            command = rebalancer_command("run", plan.settings_file)
            with ChildProcess("the Spark job", command, plan.log, short_run=True) as job:
                yield JobDecider(topics, job, StartNews(plan.checkpoint).look, say)


class PlainDecider:
    """The plain loop: folds the records of the demo's topics in this process, without Spark."""

    def __init__(self, topics: "DemoTopics", settings: EngineSettings) -> None:
        self._topics, self._loop = topics, PlainLoop(settings)

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        self._topics.publish(records)
        rows = [
            row
            for record in self._topics.read("telemetry")
            for row in self._loop.feed(record.position, record.value, record.size)
        ]
        self._topics.publish_rows(rows)
        answer = self._topics.answer(records[-1].ts)
        assert answer is not None, "each pass of an undisturbed cluster closes a round"
        return answer


class JobDecider:
    """Waits for the job's answer, and raises when the job's process has ended."""

    def __init__(
        self,
        topics: "DemoTopics",
        job: ChildProcess,
        starting: Callable[[], Sequence[str]],
        say: Callable[[str], None],
    ) -> None:
        """`starting`: new lines of a job that starts; `say`: gets them."""
        self._topics, self._job, self._patience = topics, job, FIRST_ANSWER_SECONDS
        self._starting, self._say = starting, say

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        self._topics.publish(records)
        gives_up = time.monotonic() + self._patience
        while (answer := self._topics.answer(records[-1].ts)) is None:
            for line in self._starting():
                self._say(line)
            self._job.check()
            if time.monotonic() > gives_up:
                raise PublishTimeout(
                    f"the Spark job has not answered for {self._patience:.0f} s; its log is "
                    f"{self._job.log}"
                )
            time.sleep(POLL_SECONDS)
        self._patience = ANSWER_SECONDS
        return answer


class DemoTopics:
    """Publishers and readers of one run's topics, with the read position of each topic."""

    def __init__(
        self,
        uris: Mapping[str, TopicUri],
        cluster: PolledCluster,
        access: TopicAccess = NO_SECURITY,
    ) -> None:
        """`uris`: by the names of their settings. The first publish creates the folder of a file
        topic.
        """
        self._key, self._writer = cluster.name, TelemetryWriter(cluster.start_ms)
        self._publishers = {name: open_publisher(uri, access) for name, uri in uris.items()}
        self._readers = {name: open_reader(uri, access, follow=True) for name, uri in uris.items()}
        self._commands: dict[str, Command] = {}
        self._rounds: dict[int, Round] = {}

    def publish(self, records: Sequence[TelemetryRecord]) -> None:
        """Publishes telemetry with one flush, so that readers of file topics see whole passes, and
        outcomes on their own topic too.
        """
        self._publish(
            "outcomes",
            [encode_outcome(one.outcome) for one in records if isinstance(one, OutcomeReport)],
        )
        self._publish("telemetry", [self._writer.json(one) for one in records])

    def publish_rows(self, rows: Sequence[OutputRow]) -> None:
        """Publishes the rows of the plain loop to the topics that the job writes."""
        for row in rows:
            self._publish(row.kind, [row.value])

    def read(self, name: str) -> list[TopicRecord]:
        """New records of a topic since the last call."""
        found: list[TopicRecord] = []
        while records := self._readers[name].read():
            found += records
        return found

    def close(self) -> None:
        """Closes all publishers and consumers."""
        for publisher in self._publishers.values():
            publisher.close()
        for reader in self._readers.values():
            reader.close()

    def _publish(self, name: str, values: Sequence[bytes]) -> None:
        for value in values:
            self._publishers[name].publish(self._key, value)
        self._publishers[name].flush()

    def answer(self, ts: int) -> RoundAnswer | None:
        """The round that closed at `ts` with all its commands; None until all of them have
        arrived.
        """
        self._commands.update(
            (command.id, command)
            for command in (decode_command(one.value) for one in self.read("commands"))
        )
        self._rounds.update(
            (record.ts, record)
            for record in (decode_round(one.value) for one in self.read("rounds"))
        )
        record = self._rounds.get(ts)
        if record is None or not self._commands.keys() >= set(record.commands):
            return None
        return RoundAnswer(record, tuple(self._commands[id_] for id_ in record.commands))


#: Passes before the present.
_HISTORY = 20


@dataclass(slots=True)
class ModelledCluster:
    """One pass per statistics period; the next one begins when the job has answered the last."""

    cluster: PolledCluster
    topics: DemoTopics
    clock_ms: Callable[[], int]
    due_ms: int
    #: Time of the round that the job has not answered yet.
    waits_for: int | None = None

    def step(self) -> list[Command]:
        """Does what is due, and returns the commands that were applied."""
        if self.waits_for is not None:
            return self._applied(self.waits_for)
        if self.clock_ms() >= self.due_ms:
            records = self.cluster.collect()
            self.topics.publish(records)
            self.waits_for, self.due_ms = records[-1].ts, self.due_ms + PERIOD_MS
        return []

    def close(self) -> None:
        """Closes the topics."""
        self.topics.close()

    def _applied(self, ts: int) -> list[Command]:
        answer = self.topics.answer(ts)
        if answer is None:
            return []
        self.waits_for = None
        outcomes = self.cluster.carry_out(answer.commands, ts)
        self.topics.publish(outcome_reports(outcomes))
        return list(answer.commands)


def modelled_cluster(
    topics: Mapping[str, TopicUri], seed: int, clock_ms: Callable[[], int]
) -> ModelledCluster:
    """The demo's cluster, with records on these topics."""
    start_ms = clock_ms() - _HISTORY * PERIOD_MS
    cluster = PolledCluster(skewed_cluster(CLUSTER, seed, BUNDLES).world, CLUSTER, start_ms)
    return ModelledCluster(cluster, DemoTopics(topics, cluster), clock_ms, start_ms)


def is_settled(steps: Sequence[RoundAnswer], goal: Goal) -> bool:
    """Whether the last rounds reached the strategy's goal and none of them moved a bundle."""
    last = steps[-QUIET_ROUNDS:]
    return len(last) == QUIET_ROUNDS and all(
        goal.reached(step.round) and not step.commands for step in last
    )


def run_demo(plan: DemoPlan, settings: EngineSettings, goal: Goal, screen: Screen) -> Result:
    """Runs the demo. Raises ChildFailed or PublishTimeout when the job fails, KeyboardInterrupt
    when the demo is stopped.
    """
    began, steps = time.monotonic(), list[RoundAnswer]()
    cluster = skewed_cluster(CLUSTER, plan.seed, BUNDLES)

    def say(line: str) -> None:
        screen.wait(f"Starting the Spark job: {line} …")

    with stoppable(), open_decider(plan, settings, cluster, say) as decider:
        if plan.engine == "spark":
            screen.wait("Starting the Spark job, which takes 15 to 30 seconds …")
        try:
            for step in closed_loop(cluster, decider):
                steps.append(step)
                screen.step(step)
                if len(steps) == plan.rounds or is_settled(steps, goal):
                    break
        finally:
            if plan.engine == "spark":
                screen.wait("Stopping the Spark job …")
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


def run(plan: DemoPlan, html: Path | None, as_json: bool) -> NoReturn:
    """Runs the demo, and prints and writes its result. Raises typer.Exit."""
    write_settings(plan)
    settings = load(plan.settings_file)
    goal = goal_of(settings.engine)
    try:
        with open_screen(plan, goal, quiet=as_json) as screen:
            result = run_demo(plan, settings.engine, goal, screen)
    except KeyboardInterrupt:
        console.progress(f"Stopped; the results so far are in {plan.folder}")
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    write_demo_report(result, settings, html)
    if as_json:
        console.print_json("demo", 1, result.as_json())
    else:
        screen.end(result, _program())
    raise typer.Exit(result.exit_code)


def _program() -> str:
    """How to call `rebalancer` here: its name, or its path if it is not on PATH."""
    return (
        "rebalancer"
        if shutil.which("rebalancer")
        else os.path.relpath(Path(sys.executable).with_name("rebalancer"))
    )

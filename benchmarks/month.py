"""`python -m benchmarks.month`: a month in an afternoon: whether anything of the job grows.

Days of a made-up cluster go through the real job (`rebalancer run`) on a Kafka broker whose topics
have retention, as fast as the job takes them. After each day: the memory of the driver, of Java
after a full collection and of the Python workers (PSS: shared pages are divided among processes),
open files, threads and the checkpoint's size: its mean over the day, since Spark deletes old files
in steps. Every record that the job publishes is compared with the plain loop over the same
telemetry. Exit code 1 if a record differs, or if a figure of the last day is more than 5 % above
that of day 3. What grows with micro-batches and what grows with records are both seen: a
micro-batch has few passes. `--days 4 --passes 60` is a short one. Linux and a JDK (`jcmd`).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.figures import folder_bytes, say, table
from benchmarks.fleet import Fleet
from benchmarks.kafka_records import Publisher, passes
from benchmarks.options import number, options
from benchmarks.processes import proportional_bytes
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.settings.merge_sources import load
from sinks.wire.record_decoding import Position
from tests.topic_uris import topic_of
from tools.processes.real_job import MARK, PROJECT, kill_marked, marked

if TYPE_CHECKING:
    from tools.servers.kafka_broker import KafkaBroker

_LOG = "job.log"
TOPICS = ("telemetry", "commands", "rounds", "rejected")
#: The day that others are compared with: caches are warm then, and compilers have finished.
COMPARED_DAY, MOST = 3, 1.05
#: Passes that are published before the job has to have taken them.
_AHEAD = 60
_WAIT_S, _LOOK_S, _LOOK_AT_CHECKPOINT_S = 600.0, 0.2, 2.0
_MIB = 2**20
#: Once a minute by default, which is half a day or more here.
_SPARK_DEFAULTS = "spark.sql.streaming.stateStore.maintenanceInterval 5s\n"
_RETENTION = {
    "segment.bytes": str(32 * _MIB),
    "retention.bytes": str(256 * _MIB),
    "max.message.bytes": str(16 * _MIB),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and of which size. `passes`: in a day; `together`: in a micro-batch, at most."""

    days: int
    brokers: int
    bundles: int
    passes: int
    together: int

    @property
    def records(self) -> int:
        """Of one pass: a report of each broker, and the sweep."""
        return self.brokers + 1


@dataclass(frozen=True, slots=True)
class Day:
    """After a day. MiB of PSS; `files`, `threads`: of all processes of the job together;
    `compared`, `differing`: records that the job has published so far.
    """

    day: int
    driver_mib: float
    java_mib: float
    workers_mib: float
    processes: int
    files: int
    threads: int
    checkpoint_mib: float
    compared: int
    differing: int


@dataclass(slots=True)
class Comparison:
    """Values by topic that the plain loop has made and the job has not published yet."""

    expected: dict[str, list[bytes]] = field(
        default_factory=lambda: {name: [] for name in TOPICS[1:]}
    )
    compared: int = 0
    differing: int = 0

    @property
    def complete(self) -> bool:
        return not any(self.expected.values())

    def take(self, topic: str, values: Sequence[bytes]) -> None:
        """Compares what the job has published with what comes next."""
        waiting = self.expected[topic]
        for at, value in enumerate(values):
            self.compared += 1
            self.differing += at >= len(waiting) or waiting[at] != value
        del waiting[: len(values)]


@dataclass(slots=True)
class Checkpoint:
    """Sizes of the checkpoint's folder in a day, looked at every other second."""

    folder: Path
    sizes: list[int] = field(default_factory=list)
    looked: float = 0.0

    def look(self) -> None:
        if (now := time.monotonic()) - self.looked >= _LOOK_AT_CHECKPOINT_S:
            self.sizes.append(folder_bytes(self.folder))
            self.looked = now

    def mean_mib(self) -> float:
        """Of the day that ends."""
        self.sizes.append(folder_bytes(self.folder))
        sizes, self.sizes = self.sizes, []
        return mean(sizes) / _MIB


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures of each day; what it is doing on standard error."""
    chosen = _options().parse_args(arguments)
    plan = Plan(chosen.days, chosen.brokers, chosen.bundles, chosen.passes, chosen.together)
    days: list[Day] = []
    try:
        for day in run(plan):
            days.append(day)
            say(str(day))
    finally:
        print(json.dumps([asdict(day) for day in days]) if chosen.json else shown(days))
    sys.exit(bool(faults(days)))


def run(plan: Plan) -> Iterator[Day]:
    """Starts a broker and the job, and measures after each day."""
    from tools.servers.kafka_broker import kafka_broker

    with tempfile.TemporaryDirectory(prefix="rebalancer-month-") as name:
        folder = Path(name)
        (folder / "kafka").mkdir()
        often = {"log.retention.check.interval.ms": "10000"}
        with kafka_broker(folder / "kafka", often) as kafka:
            uris = {one: kafka.topic(one, 1, _RETENTION) for one in TOPICS}
            assignments = [f"topics.{one}={uri}" for one, uri in uris.items()]
            assignments.append(f"job.checkpoint={folder / 'checkpoint'}")
            assignments.append(f"job.max_records_per_batch={plan.together * plan.records}")
            with _job(folder, assignments) as (driver, mark):
                yield from _days(plan, kafka, uris, folder, (driver, mark))


def faults(days: Sequence[Day]) -> list[str]:
    """What grew, and whether records differ."""
    found = [f"{days[-1].differing} records differ"] if days and days[-1].differing else []
    if len(days) <= COMPARED_DAY:
        return found
    early, last = asdict(days[COMPARED_DAY - 1]), asdict(days[-1])
    found += [
        f"{name}: {early[name]:.0f} on day {COMPARED_DAY}, {last[name]:.0f} on day {len(days)}"
        for name in early
        if name not in ("day", "compared", "differing") and last[name] > MOST * early[name]
    ]
    return found


def shown(days: Sequence[Day]) -> str:
    """The days as a table, and what is wrong."""
    rows = [
        {name: f"{value:.1f}" if isinstance(value, float) else value for name, value in one.items()}
        for one in map(asdict, days)
    ]
    return "\n".join([table("The job after each day", rows), *faults(days)])


def _days(
    plan: Plan,
    kafka: "KafkaBroker",
    uris: Mapping[str, str],
    folder: Path,
    job: tuple[subprocess.Popen[bytes], str],
) -> Iterator[Day]:
    loop, comparison = PlainLoop(load(None, {}, ()).engine), Comparison()
    checkpoint = Checkpoint(folder / "checkpoint")
    records = passes(Fleet(plan.brokers, plan.bundles))
    read = 0
    with Publisher(uris["telemetry"]) as publisher, _reader(uris) as reader:
        for day in range(1, plan.days + 1):
            for first in range(0, plan.passes, _AHEAD):
                number_of = min(_AHEAD, plan.passes - first) * plan.records
                chunk = list(islice(records, number_of))
                publisher.publish(chunk)
                for value in chunk:
                    for row in loop.feed(Position(uris["telemetry"], 0, read), value):
                        comparison.expected[row.kind].append(row.value)
                    read += 1
                _wait(reader, comparison, checkpoint, job[0])
            yield _measured(day, comparison, checkpoint, *job)


def _wait(
    reader: "Reader",
    comparison: Comparison,
    checkpoint: Checkpoint,
    driver: subprocess.Popen[bytes],
) -> None:
    """Until the job has published what it must. Raises AssertionError when it ends or hangs."""
    deadline = time.monotonic() + _WAIT_S
    log = checkpoint.folder.with_name(_LOG)
    while not comparison.complete:
        checkpoint.look()
        for topic, values in reader.poll():
            comparison.take(topic, values)
        assert driver.poll() is None, f"the job has ended: {log.read_text('utf-8')[-800:]}"
        assert time.monotonic() < deadline, f"no round: {log.read_text('utf-8')[-800:]}"


class Reader:
    """New records of the topics that the job writes."""

    def __init__(self, uris: Mapping[str, str]) -> None:
        from kafka import KafkaConsumer, TopicPartition

        topics = {name: topic_of(uris[name]) for name in TOPICS[1:]}
        self._names = {topic.name: name for name, topic in topics.items()}
        self._consumer = KafkaConsumer(
            bootstrap_servers=topics["rounds"].servers, enable_auto_commit=False
        )
        self._consumer.assign([TopicPartition(topic, 0) for topic in self._names])
        self._consumer.seek_to_beginning()

    def poll(self) -> Iterator[tuple[str, list[bytes]]]:
        """By topic; none if none arrive soon."""
        for partition, records in self._consumer.poll(int(_LOOK_S * 1000)).items():
            yield self._names[partition.topic], [one.value for one in records]

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _reader(uris: Mapping[str, str]) -> Iterator[Reader]:
    reader = Reader(uris)
    try:
        yield reader
    finally:
        reader.close()


@contextmanager
def _job(folder: Path, assignments: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`rebalancer run` as people run it: SIGTERM at the end, then SIGKILL of what is left."""
    mark = uuid4().hex
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REBALANCER_")}
    words = [word for one in assignments for word in ("--set", one)]
    (folder / "spark").mkdir()
    (folder / "spark" / "spark-defaults.conf").write_text(_SPARK_DEFAULTS, "utf-8")
    with (folder / _LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_rebalancer", "run", *words],
            cwd=PROJECT,
            env={**kept, MARK: mark, "SPARK_CONF_DIR": str(folder / "spark")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process, mark
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
    finally:
        kill_marked(mark)
        process.wait()


def _measured(
    day: int,
    comparison: Comparison,
    checkpoint: Checkpoint,
    driver: subprocess.Popen[bytes],
    mark: str,
) -> Day:
    pids = sorted(marked(mark))
    java = [pid for pid in pids if _name(pid) == "java"]
    for pid in java:  # what is left of a collection says nothing about growth
        subprocess.run(["jcmd", str(pid), "GC.run"], stdout=subprocess.DEVNULL, check=True)
    workers = [pid for pid in pids if pid != driver.pid and pid not in java]
    return Day(
        day,
        _pss_mib([driver.pid]),
        _pss_mib(java),
        _pss_mib(workers),
        len(pids),
        sum(_entries(pid, "fd") for pid in pids),
        sum(_entries(pid, "task") for pid in pids),
        checkpoint.mean_mib(),
        comparison.compared,
        comparison.differing,
    )


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    return ""


def _pss_mib(pids: Sequence[int]) -> float:
    return sum(map(proportional_bytes, pids)) / _MIB


def _entries(pid: int, folder: str) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/{folder}"))
    return 0


def _options() -> argparse.ArgumentParser:
    parser = options("benchmarks.month", __doc__ or "")
    number(parser, "--days", 30, "days")
    number(parser, "--brokers", 20, "brokers of the cluster")
    number(parser, "--bundles", 50, "bundles of each broker")
    number(parser, "--passes", 1_440, "passes over the brokers in a day, one a minute")
    number(parser, "--together", 8, "passes in a micro-batch, at most")
    return parser


if __name__ == "__main__":
    main()

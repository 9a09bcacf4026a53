"""The job as it runs in production, fed live: how long after the last report of a round its first
command is there, and what rounds cost.

Latency counts from the moment the last report of a round is handed to Kafka, with all earlier ones
there, to the moment a consumer of the commands topic sees the round's first command. The sweep that
closes the round follows its last report at once.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from statistics import quantiles
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.figures import Sample, sample
from benchmarks.fleet import CLUSTER, Fleet
from benchmarks.kafka_queries import STRATEGY
from benchmarks.kafka_records import Publisher
from benchmarks.plain import SETTINGS
from sinks.graceful_stop import Stop
from sinks.topics.topic_settings import TopicUri
from streaming.job import run_job
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from tests.topic_uris import topic_of

_PATIENCE_S = 180.0
#: Not counted: the first round of a job, which starts Spark's workers, and one more.
_WARM_UP = 2
_NOTE = json.dumps({"v": 1, "kind": "note", "cluster": CLUSTER, "ts": 0}).encode()


@dataclass(frozen=True, slots=True)
class Latency:
    """ms from a round's last report to its first command. `burst`: all reports of a round at once,
    otherwise trickled.
    """

    burst: bool
    trigger_ms: int
    rounds: int
    p50: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True)
class RoundCost:
    """ms of a micro-batch with nothing but a note, of one with nothing but the sweep that closes a
    round, and of their difference.

    `pass_ms`: all micro-batches of one pass's reports together.
    """

    brokers: int
    note_ms: Sample
    sweep_ms: Sample
    round_ms: Sample
    pass_ms: Sample


class LiveJob:
    """A job that runs in a thread of its own, and what it has told of its micro-batches."""

    def __init__(self, spark: SparkSession, job: JobSettings) -> None:
        self._stop = Stop()
        self._changed = threading.Condition()
        self._batches: list[BatchProgress] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(spark, job))

    def __enter__(self) -> "LiveJob":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, records: int) -> list[BatchProgress]:
        """All micro-batches so far, as soon as they hold so many records. Raises what ended the
        job.
        """
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._error or self._processed() >= records, _PATIENCE_S
            )
        if self._error is not None:
            raise self._error
        if not done:
            raise TimeoutError(
                f"the job has processed {self._processed()} of {records} records in "
                f"{_PATIENCE_S:.0f} s"
            )
        return list(self._batches)

    def _processed(self) -> int:
        return sum(batch.records for batch in self._batches)

    def _run(self, spark: SparkSession, job: JobSettings) -> None:
        try:
            run_job(job, SETTINGS[STRATEGY], on_progress=self._took, stop=self._stop, session=spark)
        except Exception as error:
            self._error = error
        with self._changed:
            self._changed.notify_all()

    def _took(self, batch: BatchProgress) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()


def latency(
    spark: SparkSession,
    fleet: Fleet,
    job: JobSettings,
    seconds: float,
    pass_seconds: float,
    *,
    burst: bool,
) -> Latency:
    """Of the rounds that fit into `seconds`, one every `pass_seconds`. Raises ValueError if the
    strategy has nothing to move in one of them, TimeoutError if no command comes.
    """
    rounds = _WARM_UP + max(2, int(seconds / pass_seconds))
    reported: list[float] = []
    with (
        LiveJob(spark, job),
        _first_commands(job.connections.topics.commands) as arrived,
        Publisher(job.connections.topics.telemetry) as publisher,
    ):
        for number in range(rounds):
            began = time.monotonic()
            reports = fleet.reports(number)
            publisher.publish(
                islice(reports, fleet.brokers - 1),
                per_second=0 if burst else fleet.brokers / pass_seconds,
            )
            reported.append(time.monotonic())
            publisher.publish([*reports, fleet.sweep(number)])
            if number < _WARM_UP:
                arrived.wait(number + 1)
            time.sleep(max(0.0, began + pass_seconds - time.monotonic()))
        arrived.wait(rounds)
    taken = [
        (arrived.at(number + 1) - reported[number]) * 1e3 for number in range(_WARM_UP, rounds)
    ]
    cuts = quantiles(taken, n=100, method="inclusive")
    return Latency(burst, job.trigger_ms, len(taken), cuts[49], cuts[94], cuts[98], max(taken))


def round_cost(spark: SparkSession, fleet: Fleet, job: JobSettings, passes: int) -> RoundCost:
    """From `passes` rounds after the first ones, each closed when nothing else was to be done."""
    reports, notes, sweeps = list[float](), list[float](), list[float]()
    with LiveJob(spark, job) as live, Publisher(job.connections.topics.telemetry) as publisher:
        sent, seen = 0, 0
        for number in range(_WARM_UP + passes):
            taken = []
            for values in (list(fleet.reports(number)), [_NOTE], [fleet.sweep(number)]):
                publisher.publish(values)
                sent += len(values)
                batches = live.wait_for(sent)
                taken.append(sum(batch.took_ms for batch in batches[seen:]))
                seen = len(batches)
            for figures, ms in zip((reports, notes, sweeps), taken, strict=True):
                figures.append(ms)
    counted = slice(_WARM_UP, None)
    rounds = [sweep - note for sweep, note in zip(sweeps[counted], notes[counted], strict=True)]
    return RoundCost(
        fleet.brokers,
        sample(notes[counted]),
        sample(sweeps[counted]),
        sample(rounds),
        sample(reports[counted]),
    )


class _Arrivals:
    """Which round's first command was seen when."""

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._changed = threading.Condition()

    def see(self, values: Sequence[bytes]) -> None:
        now = time.monotonic()
        with self._changed:
            for value in values:
                self._times.setdefault(json.loads(value)["round"], now)
            self._changed.notify_all()

    def wait(self, round_: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: round_ in self._times, _PATIENCE_S):
                raise TimeoutError(f"round {round_} has no command after {_PATIENCE_S:.0f} s")

    def at(self, round_: int) -> float:
        if round_ not in self._times:
            raise ValueError(f"round {round_} moves no bundle: choose more --bundles")
        return self._times[round_]


@contextmanager
def _first_commands(uri: str | TopicUri) -> Iterator[_Arrivals]:
    from kafka import KafkaConsumer

    topic, arrivals, stop = topic_of(uri), _Arrivals(), threading.Event()
    consumer: Any = KafkaConsumer(
        topic.name,
        bootstrap_servers=topic.servers,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=10,
    )

    def follow() -> None:
        while not stop.is_set():
            for records in consumer.poll(20).values():
                arrivals.see([record.value for record in records])

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield arrivals
    finally:
        stop.set()
        thread.join()
        consumer.close()

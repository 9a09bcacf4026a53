"""`python -m benchmarks.kafka`: what the job sustains on a real Kafka broker, beside pass-throughs
of the same records in the same run.

Absolute times say little on a shared machine: compare ratios of one run. The broker is started for
the run, on loopback, and is gone with its topics at the end.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import say
from benchmarks.fleet import Fleet
from benchmarks.kafka_tables import (
    DECODING,
    DROPPING,
    JOB,
    PASS_THROUGH,
    TWO_PARTITIONS,
    Figures,
    tables,
)
from benchmarks.options import options
from sinks.topics.topic_settings import Connections, Topics
from streaming.settings import JobSettings
from tests.topic_uris import topics_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.servers.kafka_broker import KafkaBroker

_TOPIC = {"max.message.bytes": str(2**24)}
PARTS = ("batches", "latencies", "growth")
_OUTPUTS = ("commands", "rounds", "rejected", "outcomes")


@dataclass(frozen=True, slots=True)
class Mode:
    """How reports come in. `records`: in one micro-batch; `batches`: of a turn; `pass_seconds`:
    from one round to the next, fed live.
    """

    burst: bool
    records: int
    batches: int
    pass_seconds: float

    @property
    def name(self) -> str:
        return "burst" if self.burst else "trickle"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    `sizes`: brokers, for the growth; `seconds`: for a latency; `warm_ups`, `turns`: of `in_turns`;
    `passes`: of `round_cost`.
    """

    brokers: int
    bundles: int
    seconds: float
    sizes: tuple[int, ...]
    triggers_ms: tuple[int, ...]
    warm_ups: int
    turns: int
    passes: int
    modes: tuple[Mode, ...]
    parts: tuple[str, ...] = PARTS


FULL = Plan(
    1_000,
    100,
    45,
    (100, 1_000, 5_000),
    (0, 500, 2_000),
    3,
    4,
    5,
    (Mode(False, 100, 10, 5), Mode(True, 1_000, 4, 4)),
)
QUICK = Plan(200, 50, 6, (50, 200), (0,), 1, 1, 2, (Mode(False, 50, 4, 2), Mode(True, 200, 2, 2)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures on standard output, what it is doing on standard error."""
    chosen = _options().parse_args(arguments)
    plan = QUICK if chosen.quick else FULL
    given = {
        name: value
        for name in ("brokers", "bundles", "seconds", "turns", "parts")
        if (value := getattr(chosen, name)) is not None
    }
    if chosen.modes is not None:
        given["modes"] = tuple(mode for mode in plan.modes if mode.name in chosen.modes)
    figures = Figures(chosen.bundles or plan.bundles, [os.getloadavg()[0]])
    try:
        run(replace(plan, **given), figures)
    except KeyboardInterrupt:
        say("interrupted: this is what was measured until then")
        sys.exit(130)
    finally:
        figures.load.append(os.getloadavg()[0])
        print(json.dumps({"v": 1, **asdict(figures)}, indent=2) if chosen.json else tables(figures))


def run(plan: Plan, figures: Figures) -> None:
    """Starts a broker and Spark, measures, stops both; `figures` hold what has been measured,
    whatever comes.
    """
    from tools.servers.kafka_broker import kafka_broker

    with tempfile.TemporaryDirectory(prefix="rebalancer-bench-") as folder:
        place = Path(folder)
        (place / "kafka").mkdir()
        say("a Kafka broker and Spark start")
        with kafka_broker(place / "kafka") as kafka, _session(kafka, place) as spark:
            bench = Bench(spark, kafka, place, plan)
            for part in plan.parts:
                getattr(bench, part)(figures)


@dataclass(frozen=True)
class Bench:
    """Where it is measured, and what."""

    spark: "SparkSession"
    kafka: "KafkaBroker"
    folder: Path
    plan: Plan

    def batches(self, figures: Figures) -> None:
        """Micro-batches of the job and of the pass-throughs, in turns."""
        from benchmarks.kafka_batches import in_turns
        from benchmarks.kafka_queries import (
            decoding_pass_through,
            dropping_query,
            job_query,
            pass_through,
        )

        for mode in self.plan.modes:
            name = f"batches-{mode.records}"
            say(f"micro-batches of {mode.records:,}: job and pass-throughs in turns")
            job = replace(self._job(name), max_records_per_batch=mode.records)
            plain, decoding, dropping = (
                replace(job, checkpoint=str(self.folder / f"{name}-{one}"))
                for one in ("plain", "decoding", "dropping")
            )
            topics = self._topics(f"{name}-two", str(job.connections.topics.telemetry))
            two = replace(
                job,
                checkpoint=str(self.folder / f"{name}-two"),
                connections=replace(job.connections, topics=topics),
            )
            queries = [
                pass_through(PASS_THROUGH, self.spark, plain, self._topic(f"{name}-plain")),
                decoding_pass_through(
                    DECODING, self.spark, decoding, self._topic(f"{name}-decoded")
                ),
                dropping_query(DROPPING, self.spark, dropping),
                job_query(JOB, self.spark, job),
                job_query(TWO_PARTITIONS, self.spark, replace(two, shuffle_partitions=2)),
            ]
            fleet = self._fleet(self.plan.brokers)
            before = figures.batches
            counts = {
                "warm_ups": self.plan.warm_ups,
                "turns": self.plan.turns,
                "batches": mode.batches,
            }
            for times in in_turns(
                queries, str(job.connections.topics.telemetry), fleet, mode.records, **counts
            ):
                figures.batches = [*before, *times]
                say("  " + ", ".join(f"{one.query} {one.batch_ms}" for one in times))

    def latencies(self, figures: Figures) -> None:
        """The job fed live, at every trigger."""
        from benchmarks.kafka_live import latency

        for mode in self.plan.modes:
            for trigger_ms in self.plan.triggers_ms:
                name = f"{mode.name}-{trigger_ms}"
                say(f"latency, {mode.name}, trigger {trigger_ms} ms")
                job = replace(self._job(name), trigger_ms=trigger_ms)
                fleet = self._fleet(self.plan.brokers)
                figures.latencies.append(
                    latency(
                        self.spark,
                        fleet,
                        job,
                        self.plan.seconds,
                        mode.pass_seconds,
                        burst=mode.burst,
                    )
                )

    def growth(self, figures: Figures) -> None:
        """Rounds, memory and state of clusters of several sizes."""
        from benchmarks.kafka_live import round_cost
        from benchmarks.kafka_memory import memory, state_size

        for brokers in self.plan.sizes:
            say(f"rounds, memory and state of {brokers:,} brokers")
            job = self._job(f"rounds-{brokers}")
            figures.rounds.append(
                round_cost(self.spark, self._fleet(brokers), job, self.plan.passes)
            )
            figures.memory.append(memory(self.spark, brokers, os.getpid()))
            figures.states.append(
                state_size(self.spark, Path(job.checkpoint), brokers, brokers * self.plan.bundles)
            )

    def _fleet(self, brokers: int) -> Fleet:
        return Fleet(brokers, self.plan.bundles)

    def _topic(self, name: str) -> str:
        return self.kafka.topic(name, 1, _TOPIC)

    def _topics(self, name: str, telemetry: str) -> Topics:
        return topics_of(
            telemetry=telemetry, **{kind: self._topic(f"{name}-{kind}") for kind in _OUTPUTS}
        )

    def _job(self, name: str) -> JobSettings:
        return JobSettings(
            checkpoint=str(self.folder / name),
            connections=Connections(topics=self._topics(name, self._topic(f"{name}-telemetry"))),
        )


@contextmanager
def _session(kafka: "KafkaBroker", folder: Path) -> "Iterator[SparkSession]":
    """A Spark with the settings of a long-running job on Kafka; its log is in `folder`."""
    from streaming.spark_session import start_session, stop_session

    started = start_session(
        JobSettings(
            connections=Connections(topics=topics_of(telemetry=f"kafka://{kafka.address()}/any"))
        ),
        folder / "spark.log",
    )
    try:
        yield started
    finally:
        stop_session(started)


def _options() -> argparse.ArgumentParser:
    parser = options("benchmarks.kafka", __doc__ or "")
    parser.add_argument(
        "--brokers",
        type=int,
        metavar="N",
        help=f"of the cluster in all but the last part (default: {FULL.brokers:,})",
    )
    parser.add_argument(
        "--bundles", type=int, metavar="N", help=f"per broker (default: {FULL.bundles})"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"for each latency, after a warm-up (default: {FULL.seconds:g})",
    )
    parser.add_argument(
        "--turns",
        type=int,
        metavar="N",
        help=f"of job and pass-throughs on the same records (default: {FULL.turns})",
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        help="what to measure; latencies are compared with batches (default: all)",
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=("trickle", "burst"),
        help="how reports come in (default: both)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a small cluster and few repetitions: whether it works, not how fast",
    )
    return parser


if __name__ == "__main__":
    main()

"""The job when its broker is away, a topic is gone, or a record is too large: nothing lost, one
clear line, no stack trace.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.topic_settings import Topics
from strategies.errors import PublishRejected
from streaming.job import run_job
from streaming.outputs.counts_of_micro_batch import KINDS
from tests.replayed import replayed
from tests.servers.job_stories import job_on, settings_of
from tests.servers.test_kafka_job import topics
from tests.spark.workshop import uneven
from tests.topic_uris import topic_of
from tools.processes.process import Process
from tools.processes.real_job import eager
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults]


LINES = uneven(12)


@contextmanager
def at_work(
    kafka: KafkaBroker, name: str, folder: Path, timeout_ms: int
) -> Iterator[tuple[Topics, Process]]:
    """A job that has closed four rounds of twelve."""
    places = topics(kafka, name)
    put(places.telemetry, LINES[:16])
    settings = {**settings_of(places, folder), "kafka.timeout_ms": timeout_ms}
    with Process(folder / "job.log", "run", settings=settings) as job:
        job.wait_until(lambda: len(values(places.rounds)) == 4)
        yield places, job


def goes_on(places: Topics, job: Process) -> None:
    """It closes the other rounds."""
    put(places.telemetry, LINES[16:])
    job.wait_until(lambda: len(set(values(places.rounds))) == 12)


@pytest.mark.parametrize(
    ("seconds", "timeout_ms"), [(5, 10_000), pytest.param(60, 30_000, marks=pytest.mark.slow)]
)
def test_the_job_outlasts_the_broker_and_names_a_topic_that_is_gone(
    own_kafka: KafkaBroker, tmp_path: Path, seconds: float, timeout_ms: int
) -> None:
    expected = replayed(LINES, eager("threshold"))
    with at_work(own_kafka, "away", tmp_path, timeout_ms) as (places, job):
        own_kafka.server.kill()
        gone = time.monotonic()
        job.wait_until(lambda: time.monotonic() - gone >= seconds and "trying again" in job.said)
        own_kafka.server.start()
        goes_on(places, job)
        for kind in KINDS:
            assert list(dict.fromkeys(values(getattr(places, kind)))) == expected[kind]

        own_kafka.delete_topic("away-telemetry")
        assert job.ended() == 1
        assert " error: " in job.last_line
        told = "the topic does not exist; create it with: rebalancer topics create"
        assert f"{places.telemetry}: {told}" in job.last_line
        assert job.traces == []


def test_a_broker_that_answers_nothing_for_a_while_is_logged_and_the_query_goes_on(
    own_kafka: KafkaBroker, tmp_path: Path
) -> None:
    # What the query says by itself comes after four minutes.
    with at_work(own_kafka, "short", tmp_path, 240_000) as (places, job):
        said = len(job.said)
        own_kafka.server.pause()
        job.wait_for("no answer; check that the broker runs")
        own_kafka.server.resume()
        job.wait_for("the servers of the topics answer again after")
        goes_on(places, job)
        # Lines about batches, and that the job has started, may come later than their rounds.
        usual = re.compile(" batch | start: ")
        told = [line for line in job.said[said:].splitlines() if not usual.search(line)]
        assert ["trying again for up to 600 s" in line for line in told[:2]] == [True, False]
        assert job.traces == []


def test_a_record_that_its_topic_does_not_take_stops_the_job_with_the_way_out(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places = replace(
        topics(kafka, "narrow"),
        rounds=topic_of(kafka.topic("narrow-too", configs={"max.message.bytes": "200"})),
    )
    put(places.telemetry, uneven(3))
    # One round in a micro-batch: a batch of several that a topic does not take Kafka's Java client
    # splits in vain, for minutes and busily.
    hasty = KafkaSettings(timeout_ms=5_000)
    job = job_on(places, tmp_path, max_records_per_batch=len(uneven(1)), kafka=hasty)
    with pytest.raises(
        PublishRejected,
        match=r"a record is larger than its topic allows: raise the topic's max\.message\.bytes "
        r"\(narrow-too takes 200, ",
    ) as refused:
        run_job(job, eager("threshold"), drain=True, session=spark)
    assert "\n" not in str(refused.value)

    kafka.configure("narrow-too", {"max.message.bytes": "1000000"})
    run_job(job, eager("threshold"), drain=True, session=spark)
    # Not in order: while the broker takes over its new limit, it may refuse the first round and
    # take the next one.
    published = {kind: set(values(getattr(places, kind))) for kind in KINDS}
    expected = replayed(uneven(3), eager("threshold"))
    assert published == {kind: set(expected[kind]) for kind in KINDS}, "nothing is lost"

"""A new checkpoint on a Kafka topic on which another job has decided: where it begins, and what it
does not publish.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.addresses import Connections
from sinks.topics.kafka.settings import KafkaSettings
from streaming.job import run_job
from tests.replayed import replayed
from tests.servers.job_stories import SECOND_EPOCH, drain, job_on
from tests.servers.test_kafka_job import topics
from tests.spark.workshop import eager, uneven
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def times(lines: list[bytes]) -> list[int | None]:
    return [int(json.loads(line)["ts"]) for line in lines]


def test_it_begins_at_the_time_that_the_setting_says(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places, lines = topics(kafka, "warm-window", 2), uneven(40)
    put(places.telemetry, lines, times(lines))
    drain(spark, job_on(places, tmp_path / "older"), eager())
    newest = json.loads(values(places.rounds)[-1])["ts"]
    newer = replace(job_on(places, tmp_path / "newer"), warm_start_minutes=5)
    late = [at for at in times(lines) if at is not None and at >= newest - 300_000]
    assert 0 < len(late) < len(lines) / 2
    assert sum(batch.records for batch in drain(spark, newer, eager())) == len(late)


def test_a_start_position_that_the_settings_name_wins(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places, lines = topics(kafka, "warm-named"), uneven(8)
    put(places.telemetry, lines)
    drain(spark, job_on(places, tmp_path / "older"), eager())
    older = values(places.rounds)
    named = Connections(topics=places, kafka=KafkaSettings(start="1"))
    said: list[str] = []
    newer = replace(job_on(places, tmp_path / "newer"), connections=named)
    run_job(newer, eager(), drain=True, session=spark, log=said.append)
    assert "no warm start: kafka.start names where this new checkpoint begins" in said
    assert values(places.rounds) == [*older, *replayed(lines, SECOND_EPOCH)["rounds"]]

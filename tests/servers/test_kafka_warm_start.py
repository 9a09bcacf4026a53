"""A new checkpoint on a Kafka topic on which another job has decided: where it begins, and what it
does not publish.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.connections import Connections
from sinks.topics.kafka.settings import KafkaSettings
from streaming.job import run_job
from tests.replayed import replayed
from tests.servers.job_stories import drain, job_on
from tests.servers.test_kafka_job import topics
from tests.spark.workshop import eager, recording, uneven
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]
SECOND_EPOCH = replace(eager(), round=replace(eager().round, epoch=2))


def times(lines: list[bytes]) -> list[int | None]:
    return [int(json.loads(line)["ts"]) for line in lines]


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_was_there_is_folded_and_not_published(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, partitions: int
) -> None:
    places, lines = (
        topics(kafka, f"warm-{partitions}", partitions),
        recording("modular-broker-killed"),
    )
    put(places.telemetry, lines[:120])
    drain(spark, job_on(places, tmp_path / "older"), eager("avg"))
    before = {kind: values(getattr(places, kind)) for kind in ("commands", "rounds")}
    newer = replace(job_on(places, tmp_path / "newer"), max_records_per_batch=50)

    put(places.telemetry, lines[120:150])
    warming = drain(spark, newer, eager())
    assert sum(batch.records for batch in warming) == 150
    assert all(batch.warming for batch in warming)
    put(places.telemetry, lines[150:])
    assert not any(batch.warming for batch in drain(spark, newer, eager()))

    expected = replayed(lines, SECOND_EPOCH, 150)
    for kind, older in before.items():
        assert sorted(values(getattr(places, kind))) == sorted([*older, *expected[kind]])
    assert len(expected["rounds"]) > 1


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

"""What the streaming job does with topics on every kind of server: the bytes of the plain replay,
and a new checkpoint where another job has decided.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.outputs.facts import KINDS
from tests.lanes import variant
from tests.replayed import replayed
from tests.servers.job_stories import SECOND_EPOCH, drain, job_on
from tests.servers.topic_server import TopicServer
from tests.spark.workshop import eager, recording

pytestmark = [pytest.mark.servers, pytest.mark.spark]


@pytest.mark.parametrize(
    ("server", "partitions"),
    [
        pytest.param("kafka", 4, marks=pytest.mark.essential),
        variant("kafka", 1),
        ("pulsar", 0),
        ("pulsar", 4),
    ],
    indirect=["server"],
)
def test_a_recording_gives_the_bytes_of_the_plain_replay(
    spark: SparkSession, server: TopicServer, tmp_path: Path, partitions: int
) -> None:
    lines, engine = recording("modular-broker-killed"), eager()
    places = server.topics(f"recording-{partitions}", partitions)
    server.put(places.telemetry, lines)
    job = replace(job_on(places, tmp_path), max_records_per_batch=50)
    progress = drain(spark, job, engine)
    expected = replayed(lines, engine)
    assert len(expected["commands"]) > 0
    assert {kind: server.values(getattr(places, kind)) for kind in KINDS} == {**expected}
    assert sum(batch.written.commands for batch in progress) == len(expected["commands"])
    assert sum(batch.written.rounds for batch in progress) == len(expected["rounds"])
    assert sum(batch.records for batch in progress) == len(lines)
    assert max(batch.records for batch in progress) == 50


@pytest.mark.parametrize(
    ("server", "partitions"),
    [("kafka", 1), ("kafka", 3), ("pulsar", 0), ("pulsar", 3)],
    indirect=["server"],
)
def test_what_was_there_is_folded_and_not_published(
    spark: SparkSession, server: TopicServer, tmp_path: Path, partitions: int
) -> None:
    places = server.topics(f"warm-{partitions}", partitions)
    lines = recording("modular-broker-killed")
    server.put(places.telemetry, lines[:120])
    drain(spark, job_on(places, tmp_path / "older"), eager("avg"))
    before = {kind: server.values(getattr(places, kind)) for kind in ("commands", "rounds")}
    newer = replace(job_on(places, tmp_path / "newer"), max_records_per_batch=50)

    server.put(places.telemetry, lines[120:150])
    warming = drain(spark, newer, eager())
    assert sum(batch.records for batch in warming) == 150
    assert all(batch.warming for batch in warming)
    server.put(places.telemetry, lines[150:])
    assert not any(batch.warming for batch in drain(spark, newer, eager()))

    expected = replayed(lines, SECOND_EPOCH, 150)
    for kind, older in before.items():
        found = server.values(getattr(places, kind))
        assert sorted(found) == sorted([*older, *expected[kind]])
    assert len(expected["rounds"]) > 1

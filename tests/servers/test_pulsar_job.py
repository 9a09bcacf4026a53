"""The streaming job from Pulsar to Pulsar: the bytes of the plain replay, whatever the number of
partitions.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.topic_settings import Topics
from streaming.sources.pulsar import BEGIN
from tests.control_topic import TOPICS
from tests.replayed import replayed
from tests.servers.job_stories import drain, job_on
from tests.spark.test_job import Running
from tests.spark.workshop import eager, uneven
from tests.topic_uris import topics_of
from tools.servers.pulsar_cluster import PulsarCluster
from tools.servers.pulsar_topics import put, values
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def topics(pulsar: PulsarCluster, name: str, partitions: int = 0) -> Topics:
    """Topics of one test, in a namespace of its own."""
    return topics_of(**{topic: pulsar.topic(f"job/{name}/{topic}", partitions) for topic in TOPICS})


def test_a_restart_goes_on_in_the_middle_of_an_entry_and_bad_records_are_rejected(
    spark: SparkSession, pulsar: PulsarCluster, tmp_path: Path
) -> None:
    places, engine, lines = topics(pulsar, "restart"), eager(), uneven(6)
    job = job_on(places, tmp_path, max_records_per_batch=3)
    put(pulsar, places.telemetry, lines[:10])
    with Running(spark, job, engine):
        put(pulsar, places.telemetry, [b"nonsense"], batch=1)
        eventually(lambda: len(values(pulsar, places.rejected)) == 1)
    put(pulsar, places.telemetry, lines[10:])
    drain(spark, job, engine)
    expected = replayed(lines, engine)
    assert {kind: values(pulsar, getattr(places, kind)) for kind in ("commands", "rounds")} == {
        kind: expected[kind] for kind in ("commands", "rounds")
    }
    (rejected,) = map(json.loads, values(pulsar, places.rejected))
    assert (rejected["topic"], rejected["partition"]) == (str(places.telemetry), 0)


def test_the_first_micro_batch_is_repeated_from_where_it_began(
    spark: SparkSession, pulsar: PulsarCluster, tmp_path: Path
) -> None:
    """A kill before its end, after which more messages arrive."""
    places, engine, lines = topics(pulsar, "again"), eager(), uneven(6)
    put(pulsar, places.telemetry, lines[:4])
    job, folder = (
        job_on(places, tmp_path, pulsar=PulsarSettings(start="latest")),
        tmp_path / "checkpoint",
    )
    with Running(spark, job, engine):
        eventually((folder / BEGIN).exists)
        put(pulsar, places.telemetry, lines[4:5])
        eventually((folder / "commits" / "0").exists)
    for file in (folder / "commits").iterdir():
        file.unlink()
    put(pulsar, places.telemetry, lines[5:])
    drain(spark, job, engine)
    assert values(pulsar, places.rounds) == replayed(lines[4:], engine)["rounds"]

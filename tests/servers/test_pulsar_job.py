"""The streaming job from Pulsar to Pulsar: the bytes of the plain replay, whatever the number of
partitions.
"""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.pulsar_api.access import PulsarSettings
from sinks.topics.addresses import Connections, Topics, TopicUri
from strategies.errors import SinkError
from streaming.settings import JobSettings
from streaming.sources.pulsar import BEGIN
from tests.control_topic import TOPICS, now_ms
from tests.replayed import replayed
from tests.servers.job_stories import drain, job_on
from tests.spark.test_job import Running
from tests.spark.workshop import eager, uneven
from tests.topic_uris import topic_of, topics_of
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
    job = replace(job_on(places, tmp_path), max_records_per_batch=3)
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
    (rejected,) = [json.loads(value) for value in values(pulsar, places.rejected)]
    assert (rejected["topic"], rejected["partition"]) == (str(places.telemetry), 0)


def test_records_that_were_deleted_unread_stop_the_job_with_the_way_out(
    spark: SparkSession, pulsar: PulsarCluster, tmp_path: Path
) -> None:
    places, engine, lines = topics(pulsar, "lost"), eager(), uneven(6)
    job = job_on(places, tmp_path)
    put(pulsar, places.telemetry, lines[:8])
    drain(spark, job, engine)
    put(pulsar, places.telemetry, lines[8:12])
    pulsar.forget(str(places.telemetry))
    put(pulsar, places.telemetry, lines[12:])
    eventually(lambda: trimmed(pulsar, places.telemetry) == lines[12:])
    with pytest.raises(
        SinkError,
        match=r"deleted, perhaps before the job read them.*job\.fail_on_data_loss=false",
    ):
        drain(spark, job, engine)
    lossy = replace(job.connections, pulsar=PulsarSettings(fail_on_data_loss=False))
    drain(spark, replace(job, connections=lossy), engine)
    assert values(pulsar, places.rounds) == replayed([*lines[:8], *lines[12:]], engine)["rounds"]


def test_a_new_checkpoint_begins_where_it_is_told(
    spark: SparkSession, pulsar: PulsarCluster, tmp_path: Path
) -> None:
    places, engine, lines = topics(pulsar, "start"), eager(), uneven(6)
    put(pulsar, places.telemetry, lines[:8])
    moment = max(published_at(pulsar, places.telemetry)) + 1
    eventually(lambda: now_ms() > moment)
    put(pulsar, places.telemetry, lines[8:])
    job = JobSettings(
        checkpoint=str(tmp_path / "moment"),
        connections=Connections(topics=places, pulsar=PulsarSettings(start=str(moment))),
    )
    assert sum(batch.records for batch in drain(spark, job, engine)) == len(lines) - 8
    latest = JobSettings(
        checkpoint=str(tmp_path / "latest"),
        connections=Connections(topics=places, pulsar=PulsarSettings(start="latest")),
    )
    assert drain(spark, latest, engine) == []


def test_the_first_micro_batch_is_repeated_from_where_it_began(
    spark: SparkSession, pulsar: PulsarCluster, tmp_path: Path
) -> None:
    """A kill before its end, after which more messages arrive."""
    places, engine, lines = topics(pulsar, "again"), eager(), uneven(6)
    put(pulsar, places.telemetry, lines[:4])
    folder = tmp_path / "checkpoint"
    latest = Connections(topics=places, pulsar=PulsarSettings(start="latest"))
    job = JobSettings(checkpoint=str(folder), connections=latest)
    with Running(spark, job, engine):
        eventually((folder / BEGIN).exists)
        put(pulsar, places.telemetry, lines[4:5])
        eventually((folder / "commits" / "0").exists)
    for file in (folder / "commits").iterdir():
        file.unlink()
    put(pulsar, places.telemetry, lines[5:])
    drain(spark, job, engine)
    assert values(pulsar, places.rounds) == replayed(lines[4:], engine)["rounds"]


def trimmed(cluster: PulsarCluster, uri: str | TopicUri) -> list[bytes]:
    """What is left when the broker has deleted what nothing keeps."""
    cluster.trim(str(uri))
    return values(cluster, uri)


def published_at(cluster: PulsarCluster, uri: str | TopicUri) -> list[int]:
    """When each message was published, in ms since 1970."""
    import pulsar

    with closing(cluster.client()) as client:
        reader = client.create_reader(
            f"persistent://{topic_of(uri).name}", pulsar.MessageId.earliest
        )
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(10_000).publish_timestamp())
    return found

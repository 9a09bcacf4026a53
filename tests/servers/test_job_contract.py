"""What the streaming job does with topics on every kind of server: the bytes of the plain replay, a
new checkpoint where it is told or where another job has decided, and records that it never read.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.kafka.settings import KafkaSettings
from strategies.errors import SinkError
from streaming.outputs.counts_of_micro_batch import KINDS
from streaming.settings import JobSettings
from tests.control_topic import now_ms
from tests.lanes import variant
from tests.replayed import replayed
from tests.servers.job_stories import SECOND_EPOCH, drain, job_on
from tests.servers.topic_server import TopicServer
from tests.spark.workshop import eager, uneven
from tools.processes.real_job import recording
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark]
ON_BOTH = pytest.mark.parametrize(
    ("server", "partitions"), [("kafka", 1), ("pulsar", 0)], indirect=["server"]
)


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
    job = job_on(places, tmp_path, max_records_per_batch=50)
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
    newer = job_on(places, tmp_path / "newer", max_records_per_batch=50)

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


@ON_BOTH
def test_a_new_checkpoint_begins_where_it_is_told(
    spark: SparkSession, server: TopicServer, tmp_path: Path, partitions: int
) -> None:
    """And there is no warm start, although another job has decided on the topic."""
    places, engine, lines = server.topics("start", partitions), eager(), uneven(8)
    server.put(places.telemetry, lines[:12])

    def begins(start: str) -> JobSettings:
        ways = {"kafka": KafkaSettings(start=start), "pulsar": PulsarSettings(start=start)}
        return job_on(places, tmp_path / start, max_records_per_batch=6, **ways)

    assert drain(spark, begins("latest"), engine) == []
    moment = now_ms() + 1
    eventually(lambda: now_ms() > moment)
    server.put(places.telemetry, lines[12:])
    for start in ("latest", str(moment)):
        assert [batch.records for batch in drain(spark, begins(start), engine)] == [6, 6, 6, 2]
    by_epoch = (replayed(lines[12:], one)["rounds"] for one in (engine, SECOND_EPOCH))
    assert server.values(places.rounds) == [value for rounds in by_epoch for value in rounds] != []


@ON_BOTH
def test_records_that_were_deleted_unread_stop_the_job_with_the_way_out(
    spark: SparkSession, server: TopicServer, tmp_path: Path, partitions: int
) -> None:
    places, engine, lines = server.topics("lost", partitions), eager(), uneven(6)
    server.put(places.telemetry, lines[:8])
    drain(spark, job_on(places, tmp_path), engine)
    server.put(places.telemetry, lines[8:12])
    server.replace(places.telemetry, lines[12:])
    with pytest.raises(
        SinkError, match=r"deleted.* before the job read them.*job\.fail_on_data_loss=false"
    ):
        drain(spark, job_on(places, tmp_path), engine)
    lossy = job_on(
        places,
        tmp_path,
        kafka=KafkaSettings(fail_on_data_loss=False),
        pulsar=PulsarSettings(fail_on_data_loss=False),
    )
    drain(spark, lossy, engine)
    assert server.values(places.rounds) == replayed([*lines[:8], *lines[12:]], engine)["rounds"]

"""Every codec that a Kafka topic may have, on every road by which its records are read; and batches made to hurt."""

from __future__ import annotations

import resource
import struct
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli import exits
from sinks.epochs import next_epoch
from sinks.topic_uri import parse_topic
from sinks.topics import open_reader
from strategies.errors import SinkError
from streaming.settings import JobSettings, Topics
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.replayed import replayed
from tests.servers.kafka_batches import batch, bomb, numbered, produce
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_topics import put, values
from tests.servers.test_kafka_job import TOPICS, drain
from tests.spark.workshop import eager, uneven
from tests.unit.command_line import rebalancer

pytestmark = pytest.mark.servers
CODECS = ("gzip", "snappy", "lz4", "zstd")
_BOMB_MIB = 1024


def packed_topics(kafka: KafkaBroker, codec: str) -> Topics:
    """Topics in which the broker packs everything again, with the encoders of Kafka's Java clients."""
    made = {name: kafka.topic(f"packed-{codec}-{name}", configs={"compression.type": codec}) for name in TOPICS}
    return Topics(**made)


def codec_of_first_batch(kafka: KafkaBroker, uri: str) -> int:
    """The number of its codec, as it stands in the broker's file."""
    (segment,) = (kafka.server.folder / "data").glob(f"{parse_topic(uri).name}-0/*.log")
    return int(struct.unpack_from(">h", segment.read_bytes(), 21)[0]) & 7


def put_packed(uri: str, lines: Sequence[bytes], codec: str) -> None:
    """As a producer would that packs its batches with this codec."""
    from kafka import KafkaProducer

    topic = parse_topic(uri)
    producer = KafkaProducer(bootstrap_servers=topic.servers, compression_type=codec, linger_ms=50)
    for line in lines:
        producer.send(topic.name, line, key=b"c")
    producer.flush()
    producer.close()


@pytest.mark.parametrize("codec", CODECS)
def test_every_road_reads_every_codec(kafka: KafkaBroker, tmp_path: Path, codec: str) -> None:
    places, lines = packed_topics(kafka, codec), uneven(6)
    words = [word for name in TOPICS for word in ("--set", f"topics.{name}={getattr(places, name)}")]
    decided = replayed(lines, eager())
    put(places.telemetry, lines)
    put(places.rounds, decided["rounds"])
    put(places.commands, decided["commands"])
    assert codec_of_first_batch(kafka, places.telemetry) == CODECS.index(codec) + 1

    done = rebalancer("record", tmp_path / "copy.jsonl", "--topic", places.telemetry)
    assert (done.code, (tmp_path / "copy.jsonl").read_bytes().splitlines()) == (exits.OK, lines)
    assert rebalancer("replay", "--from-topic", places.telemetry, "--json").json["records"] == len(lines)
    assert rebalancer("explain", "1", *words).code == exits.OK
    assert rebalancer("shadow", *words).code == exits.OK
    assert next_epoch((places.rounds, places.commands)) == 2, "a new checkpoint reads epochs"
    with FakePulsar(Cluster()) as pulsar:
        given = ("pulsar.cluster=c", f"pulsar.admin_urls={pulsar.admin_urls}", f"executor.state={tmp_path / 'state'}")
        executed = rebalancer("execute", "--apply", "--once", *words, *(word for one in given for word in ("--set", one)))
    assert (executed.code, len(executed.out.splitlines())) == (exits.OK, len(decided["commands"])), executed.err
    found = rebalancer("doctor", "--no-spark-start", "--json", "--set", f"job.checkpoint={tmp_path / 'new'}", *words).json["findings"]
    texts = {one["check"]: (one["status"], one["text"]) for one in found}
    assert texts["kafka codecs"] == ("ok", "gzip, snappy, lz4, zstd can be read")


@pytest.mark.spark
def test_the_job_reads_producers_with_every_codec_and_what_another_job_has_written(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    lines = uneven(8)
    places = Topics(
        telemetry=kafka.topic("mixed-telemetry"),
        **{name: kafka.topic(f"mixed-{name}", configs={"compression.type": codec}) for name, codec in zip(TOPICS[1:], CODECS, strict=True)},
    )
    share = len(lines) // len(CODECS)
    for number, codec in enumerate(CODECS):
        put_packed(places.telemetry, lines[number * share : (number + 1) * share], codec)
    assert values(places.telemetry) == lines
    before = replayed(lines, eager())["rounds"]
    put(places.rounds, before)
    drain(spark, JobSettings(checkpoint=str(tmp_path / "new"), topics=places), eager())
    second = replace(eager(), round=replace(eager().round, epoch=2))
    assert values(places.rounds) == [*before, *replayed(lines, second)["rounds"]]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_python_producers_are_read_too(kafka: KafkaBroker, codec: str) -> None:
    uri, lines = kafka.topic(f"sent-{codec}"), uneven(6)
    put_packed(uri, lines, codec)
    assert codec_of_first_batch(kafka, uri) == CODECS.index(codec) + 1
    with closing(open_reader(uri)) as reader:
        assert [record.value for record in reader.read()] == lines


def test_a_batch_that_grows_beyond_all_bounds_is_named_and_takes_no_memory(kafka: KafkaBroker) -> None:
    uri = kafka.topic("bomb")
    put(uri, [b"{}"])
    assert produce(uri, batch(bomb(_BOMB_MIB))) == 0, "the broker takes it"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with closing(open_reader(uri)) as reader:
        assert [record.value for record in reader.read()] == [b"{}"]
        with pytest.raises(SinkError, match=r"too much memory when it is unpacked.*zstd.*partition 0 at offset 1") as refused:
            reader.read()
    assert "\n" not in str(refused.value)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    assert grown < _BOMB_MIB * 2**20 / 4


def test_a_batch_that_was_damaged_on_the_disk_is_named(own_kafka: KafkaBroker) -> None:
    uri = own_kafka.topic("damaged")
    put(uri, [b"{}"])
    own_kafka.server.stop()
    (segment,) = (own_kafka.server.folder / "data").glob("damaged-0/*.log")
    with segment.open("ab") as file:
        file.write(numbered(batch(b"no zstd at all"), 1))
    own_kafka.server.start()
    with closing(open_reader(uri)) as reader:
        assert [record.value for record in reader.read()] == [b"{}"]
        with pytest.raises(SinkError, match=r"cannot be unpacked.*zstd.*partition 0 at offset 1"):
            reader.read()

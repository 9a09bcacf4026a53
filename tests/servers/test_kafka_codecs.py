"""Every codec that a Kafka topic may have, on every road by which its records are read; and batches
made to hurt.
"""

import resource
import struct
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pulsar_rebalancer.cli import exit_codes
from sinks.topics.epochs import next_epoch
from sinks.topics.open_topics import TopicRecord, open_consumer, open_reader
from sinks.topics.topic_settings import Topics, TopicUri
from sinks.wire.record_decoding import decode_rejected
from strategies.errors import SinkError
from tests.control_topic import TOPICS
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.replayed import replayed
from tests.servers.job_stories import SECOND_EPOCH, drain, job_on
from tests.servers.polling import read_all
from tests.spark.workshop import eager, uneven
from tests.topic_uris import topic_of, topic_settings, topics_of
from tests.unit.command_line import Answer, rebalancer
from tools.processes.set_words import set_words
from tools.servers.kafka_batches import batch, bomb, bombs, numbered, produce, with_header
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = pytest.mark.servers
CODECS = ("gzip", "snappy", "lz4", "zstd")
OUTPUTS = ("commands", "rounds", "rejected", "outcomes")
_BOMB_MIB = 1024
LINES = uneven(6)
DECIDED = replayed(LINES, eager())


def codecs_of_batches(kafka: KafkaBroker, uri: str | TopicUri) -> list[int]:
    """Their numbers as they stand in the broker's file, in order and without repetitions."""
    data, at, found = segment_of(kafka, topic_of(uri).name).read_bytes(), 0, dict[int, None]()
    while at < len(data):
        found[struct.unpack_from(">h", data, at + 21)[0] & 7] = None
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    return list(found)


def put_packed(uri: str | TopicUri, lines: Sequence[bytes], codec: str) -> None:
    """As a producer would that packs its batches with this codec."""
    from kafka import KafkaProducer

    topic = topic_of(uri)
    producer = KafkaProducer(bootstrap_servers=topic.servers, compression_type=codec, linger_ms=50)
    for line in lines:
        producer.send(topic.name, line, key=b"c")
    producer.flush()
    producer.close()


def put_decided(places: Topics, *first: bytes) -> None:
    """What a job has read and decided, and before that on each topic these batches."""
    for uri, some in (
        (places.telemetry, LINES),
        (places.rounds, DECIDED["rounds"]),
        (places.commands, DECIDED["commands"]),
    ):
        for one in first:
            assert produce(uri, one) == 0
        put(uri, some)


def every_road_reads(places: Topics, folder: Path, skipped: str = "") -> tuple[Answer, Answer]:
    """All programs outside Spark read what was decided, and those that tell what they have skipped
    say this; `explain` and `shadow`.
    """
    words, copy = set_words(topic_settings(places)), folder / "copy.jsonl"
    recorded = rebalancer("record", copy, "--topic", places.telemetry)
    again = rebalancer("replay", "--from-topic", places.telemetry, "--json")
    explained, compared = rebalancer("explain", "1", *words), rebalancer("shadow", *words)
    for done in (recorded, again, explained, compared):
        assert (done.code, skipped in done.err) == (exit_codes.OK, True), done.err
    assert copy.read_bytes().splitlines() == LINES
    assert again.json["records"] == len(LINES)
    assert next_epoch((places.rounds, places.commands)) == 2, "a new checkpoint reads epochs"
    with FakePulsar(Cluster()) as pulsar:
        cluster = {"pulsar.cluster": "c", "pulsar.admin_urls": pulsar.admin_urls}
        words += set_words({**cluster, "executor.state": folder / "state"})
        executed = rebalancer("execute", "--apply", "--once", *words)
    outcomes = len(executed.out.splitlines())
    assert (executed.code, outcomes) == (0, len(DECIDED["commands"])), executed.err
    return explained, compared


@pytest.mark.parametrize("codec", CODECS)
def test_every_road_reads_every_codec(kafka: KafkaBroker, tmp_path: Path, codec: str) -> None:
    """The broker packs everything again, with the encoders of Kafka's Java clients."""
    packed = {"compression.type": codec}
    places = topics_of(
        **{one: kafka.topic(f"packed-{codec}-{one}", configs=packed) for one in TOPICS}
    )
    put_decided(places)
    assert codecs_of_batches(kafka, places.telemetry) == [CODECS.index(codec) + 1]
    every_road_reads(places, tmp_path)
    words = set_words({"job.checkpoint": tmp_path / "new", **topic_settings(places)})
    examined = rebalancer("doctor", "--no-spark-start", "--json", *words).json["findings"]
    texts = {one["check"]: (one["status"], one["text"]) for one in examined}
    assert texts["kafka codecs"] == ("ok", "gzip, snappy, lz4, zstd can be read")


@pytest.mark.spark
def test_producers_with_every_codec_are_read_by_us_and_by_the_job_as_is_what_another_has_written(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    lines = uneven(8)
    places = topics_of(
        telemetry=kafka.topic("mixed-telemetry"),
        **{
            name: kafka.topic(f"mixed-{name}", configs={"compression.type": codec})
            for name, codec in zip(OUTPUTS, CODECS, strict=True)
        },
    )
    share = len(lines) // len(CODECS)
    for number, codec in enumerate(CODECS):
        put_packed(places.telemetry, lines[number * share : (number + 1) * share], codec)
    assert codecs_of_batches(kafka, places.telemetry) == [1, 2, 3, 4]
    assert [record.value for record in read_all(places.telemetry)] == lines
    before = replayed(lines, eager())["rounds"]
    put(places.rounds, before)
    drain(spark, replace(job_on(places, tmp_path), warm_start_minutes=0), eager())
    assert values(places.rounds) == [*before, *replayed(lines, SECOND_EPOCH)["rounds"]]


#: By name: batches that the broker takes and that no reader of ours can use, and how many records
#: each claims to hold.
UNUSABLE: Mapping[str, tuple[Callable[[], bytes], int]] = {
    "one record of 1 GiB": (lambda: batch(bomb(_BOMB_MIB)), 1),
    "64 records of 16 MiB": (lambda: batch(bombs(64, 16), records=64), 64),
    "a header's name that is no text": (lambda: batch(with_header(b"\xff\xfe", b"{}"), codec=0), 1),
}


@pytest.mark.parametrize("shape", UNUSABLE)
def test_a_batch_that_cannot_be_read_is_passed_over_at_its_place_and_takes_no_memory(
    kafka: KafkaBroker, shape: str
) -> None:
    make, count = UNUSABLE[shape]
    uri = kafka.topic(f"unusable-{list(UNUSABLE).index(shape)}")
    put(uri, [b"{}"])
    assert produce(uri, make()) == 0, "the broker takes it"
    put(uri, [b"[]"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read_all(uri)
    assert [(record.position.offset, record.value, bool(record.unread)) for record in found] == [
        (0, b"{}", False),
        (count, b"", True),
        (count + 1, b"[]", False),
    ]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (
        1 if sys.platform == "darwin" else 1024
    )
    assert grown < _BOMB_MIB * 2**20 / 4


def test_each_partition_goes_on_behind_its_own_batch(kafka: KafkaBroker) -> None:
    """And a group that has committed the place of such a batch does not meet it again."""
    uri = kafka.topic("unusable-anywhere", partitions=3)
    put(uri, [f'{{"cluster":"c{number}"}}'.encode() for number in range(30)])
    assert produce(uri, batch(bomb(_BOMB_MIB))) == 0
    assert produce(uri, batch(bombs(64, 16), records=64)) == 0
    put(uri, [f'{{"cluster":"c{number}"}}'.encode() for number in range(30)])
    found: list[TopicRecord] = []
    with closing(open_consumer(topic_of(uri), "g", Path())) as consumer:
        while records := consumer.poll(7, 2):
            found += records
            consumer.commit(records[-1])
    assert Counter(bool(record.unread) for record in found) == {False: 60, True: 2}
    with closing(open_consumer(topic_of(uri), "g", Path())) as consumer:
        assert consumer.poll(7, 2) == []


def test_every_road_passes_over_a_batch_that_cannot_be_read(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Each names its place, and the executor rejects it."""
    places = topics_of(**{name: kafka.topic(f"bombed-{name}") for name in TOPICS})
    put_decided(places, batch(bombs(64, 16), records=64))
    explained, compared = every_road_reads(
        places,
        tmp_path,
        "[unreadable-batch]: partition 0, offset 63. A batch of records cannot be read: "
        "BatchTooLarge: zstd",
    )
    for done, source in ((explained, places.commands), (compared, places.telemetry)):
        assert f"{source}: skipped 1 record that is no" in done.err
    rows = [decode_rejected(value) for value in values(places.rejected)]
    assert [(row.code, row.partition, row.offset) for row in rows] == [("unreadable-batch", 0, 63)]


def test_a_batch_that_nobody_can_unpack_is_passed_over(own_kafka: KafkaBroker) -> None:
    """Its checksum is right, so its producer sent nonsense, and nothing is lost. A broker would not
    take it: it is put into its file.
    """
    uri = own_kafka.topic("nonsense")
    put(uri, [b"{}"])
    own_kafka.server.stop()
    with segment_of(own_kafka, "nonsense").open("ab") as file:
        file.write(numbered(batch(b"no zstd at all"), 1))
    own_kafka.server.start()
    legal, unread = read_all(uri)
    assert (legal.value, unread.position.offset, unread.value) == (b"{}", 1, b"")
    assert "BatchUnreadable: zstd" in unread.unread


def test_a_batch_with_a_wrong_checksum_ends_the_reader(kafka: KafkaBroker) -> None:
    """It was damaged on the disk and may have been legal: it is named, and not passed over."""
    uri = kafka.topic("wrong-checksum")
    put(uri, [b"{}"])
    put(uri, [b"[]"])
    with segment_of(kafka, "wrong-checksum").open("r+b") as file:
        file.seek(file.read().rindex(b"[]"))
        file.write(b"()")
    with closing(open_reader(topic_of(uri))) as reader:
        assert [record.value for record in reader.read()] == [b"{}"]
        with pytest.raises(
            SinkError, match=r"a batch of records is damaged.*partition 0 at offset 1"
        ):
            reader.read()


def segment_of(kafka: KafkaBroker, topic: str | TopicUri) -> Path:
    (segment,) = (kafka.server.folder / "data").glob(f"{topic}-0/*.log")
    return segment

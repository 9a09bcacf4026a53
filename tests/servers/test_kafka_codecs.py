"""Every codec that a Kafka topic may have, on every road by which its records are read; and batches
made to hurt.
"""

import resource
import struct
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pulsar_rebalancer.cli import exit_codes
from sinks.topics.access import TopicRecord, open_consumer, open_reader
from sinks.topics.addresses import Connections, Topics, TopicUri
from sinks.topics.epochs import next_epoch
from sinks.wire.codec import decode_rejected
from strategies.errors import SinkError
from streaming.settings import JobSettings
from tests.control_topic import TOPICS
from tests.replayed import replayed
from tests.servers.execute_once import execute_once
from tests.servers.job_stories import SECOND_EPOCH, drain
from tests.spark.workshop import eager, uneven
from tests.topic_uris import topic_of, topics_of
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.kafka_batches import batch, bomb, bombs, numbered, produce, with_header
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = pytest.mark.servers
CODECS = ("gzip", "snappy", "lz4", "zstd")
OUTPUTS = ("commands", "rounds", "rejected", "outcomes")
_BOMB_MIB = 1024


def packed_topics(kafka: KafkaBroker, codec: str) -> Topics:
    """Topics in which the broker packs everything again, with the encoders of Kafka's Java
    clients.
    """
    made = {
        name: kafka.topic(f"packed-{codec}-{name}", configs={"compression.type": codec})
        for name in TOPICS
    }
    return topics_of(**made)


def codec_of_first_batch(kafka: KafkaBroker, uri: str | TopicUri) -> int:
    """The number of its codec, as it stands in the broker's file."""
    return (
        int(struct.unpack_from(">h", segment_of(kafka, topic_of(uri).name).read_bytes(), 21)[0]) & 7
    )


def put_packed(uri: str | TopicUri, lines: Sequence[bytes], codec: str) -> None:
    """As a producer would that packs its batches with this codec."""
    from kafka import KafkaProducer

    topic = topic_of(uri)
    producer = KafkaProducer(bootstrap_servers=topic.servers, compression_type=codec, linger_ms=50)
    for line in lines:
        producer.send(topic.name, line, key=b"c")
    producer.flush()
    producer.close()


@pytest.mark.parametrize("codec", CODECS)
def test_every_road_reads_every_codec(kafka: KafkaBroker, tmp_path: Path, codec: str) -> None:
    places, lines = packed_topics(kafka, codec), uneven(6)
    words = set_words({f"topics.{name}": getattr(places, name) for name in TOPICS})
    decided = replayed(lines, eager())
    put(places.telemetry, lines)
    put(places.rounds, decided["rounds"])
    put(places.commands, decided["commands"])
    assert codec_of_first_batch(kafka, places.telemetry) == CODECS.index(codec) + 1

    done = rebalancer("record", tmp_path / "copy.jsonl", "--topic", places.telemetry)
    assert (done.code, (tmp_path / "copy.jsonl").read_bytes().splitlines()) == (
        exit_codes.OK,
        lines,
    )
    assert rebalancer("replay", "--from-topic", places.telemetry, "--json").json["records"] == len(
        lines
    )
    assert rebalancer("explain", "1", *words).code == exit_codes.OK
    assert rebalancer("shadow", *words).code == exit_codes.OK
    assert next_epoch((places.rounds, places.commands)) == 2, "a new checkpoint reads epochs"
    execute_all(words, tmp_path / "state", len(decided["commands"]))
    found = rebalancer(
        "doctor",
        "--no-spark-start",
        "--json",
        "--set",
        f"job.checkpoint={tmp_path / 'new'}",
        *words,
    ).json["findings"]
    texts = {one["check"]: (one["status"], one["text"]) for one in found}
    assert texts["kafka codecs"] == ("ok", "gzip, snappy, lz4, zstd can be read")


@pytest.mark.spark
def test_the_job_reads_producers_with_every_codec_and_what_another_job_has_written(
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
    assert values(places.telemetry) == lines
    before = replayed(lines, eager())["rounds"]
    put(places.rounds, before)
    drain(
        spark,
        JobSettings(
            checkpoint=str(tmp_path / "new"),
            warm_start_minutes=0,
            connections=Connections(topics=places),
        ),
        eager(),
    )
    assert values(places.rounds) == [*before, *replayed(lines, SECOND_EPOCH)["rounds"]]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_python_producers_are_read_too(kafka: KafkaBroker, codec: str) -> None:
    uri, lines = kafka.topic(f"sent-{codec}"), uneven(6)
    put_packed(uri, lines, codec)
    assert codec_of_first_batch(kafka, uri) == CODECS.index(codec) + 1
    with closing(open_reader(topic_of(uri))) as reader:
        assert [record.value for record in reader.read()] == lines


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
    found: list[TopicRecord] = []
    with closing(open_reader(topic_of(uri))) as reader:
        while records := reader.read():
            found += records
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
    places, lines = topics_of(**{name: kafka.topic(f"bombed-{name}") for name in TOPICS}), uneven(6)
    words = set_words({f"topics.{name}": getattr(places, name) for name in TOPICS})
    decided = replayed(lines, eager())
    for uri, some in (
        (places.telemetry, lines),
        (places.rounds, decided["rounds"]),
        (places.commands, decided["commands"]),
    ):
        assert produce(uri, batch(bombs(64, 16), records=64)) == 0
        put(uri, some)
    place = (
        "[unreadable-batch]: partition 0, offset 63. A batch of records cannot be read: "
        "BatchTooLarge: zstd"
    )

    done = rebalancer("record", tmp_path / "copy.jsonl", "--topic", places.telemetry)
    assert (done.code, (tmp_path / "copy.jsonl").read_bytes().splitlines()) == (
        exit_codes.OK,
        lines,
    )
    assert place in done.err
    done = rebalancer("replay", "--from-topic", places.telemetry, "--json")
    assert (done.code, done.json["records"]) == (exit_codes.OK, len(lines))
    assert place in done.err
    for command, source in (("explain", places.commands), ("shadow", places.telemetry)):
        done = rebalancer(command, *words)
        assert done.code == exit_codes.OK, done.err
        assert f"{source}: skipped 1 record that is no" in done.err
        assert place in done.err
    assert next_epoch((places.rounds, places.commands)) == 2
    execute_all(words, tmp_path / "state", len(decided["commands"]))
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
    with closing(open_reader(topic_of(uri))) as reader:
        assert [record.value for record in reader.read()] == [b"{}"]
        (unread,) = reader.read()
    assert (unread.position.offset, unread.value) == (1, b"")
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
    """The broker's file of a topic with one partition."""
    (segment,) = (kafka.server.folder / "data").glob(f"{topic}-0/*.log")
    return segment


def execute_all(words: Sequence[str], state: Path, commands: int) -> None:
    """The executor over all present commands; each has an outcome."""
    executed = execute_once(state, *words)
    assert (executed.code, len(executed.out.splitlines())) == (exit_codes.OK, commands), (
        executed.err
    )

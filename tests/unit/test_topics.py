"""Topics by URI; on files they are read in order, and on from what was committed."""

from pathlib import Path

import pytest

from sinks.topics.open_topics import Consumer, open_consumer, open_publisher
from sinks.topics.topic_settings import TopicUri, file_topic_uri, parse_topic
from strategies.errors import SettingsError, SinkError
from tests.topic_uris import topic_of


def consumer(folder: Path, group: str = "executor") -> Consumer:
    return open_consumer(topic_of(file_topic_uri(folder / "topic")), group, folder / "positions")


def publish(folder: Path, *values: bytes) -> None:
    publisher = open_publisher(topic_of(file_topic_uri(folder / "topic")))
    for value in values:
        publisher.publish("c", value)
    publisher.flush()
    publisher.close()


def polled(one: Consumer, most: int = 10) -> list[bytes]:
    return [record.value for record in one.poll(most, 0)]


def test_what_was_polled_and_not_committed_comes_again_after_a_restart(tmp_path: Path) -> None:
    publish(tmp_path, b"1", b"2", b"3")
    first = consumer(tmp_path)
    records = first.poll(2, 0)
    first.commit(records[0])

    assert polled(first) == [b"3"]
    assert polled(consumer(tmp_path)) == [b"2", b"3"]


def test_groups_do_not_know_of_each_other(tmp_path: Path) -> None:
    publish(tmp_path, b"1")
    one = consumer(tmp_path)
    one.commit(one.poll(1, 0)[0])

    assert polled(consumer(tmp_path)) == []
    assert polled(consumer(tmp_path, "other")) == [b"1"]


def test_a_topic_that_is_not_there_yet_is_empty_and_fills(tmp_path: Path) -> None:
    one = consumer(tmp_path)
    assert polled(one) == []

    publish(tmp_path, b"1")

    assert polled(one) == [b"1"]


def test_the_unended_line_of_a_finished_segment_can_be_committed(tmp_path: Path) -> None:
    topic = tmp_path / "topic"
    topic.mkdir()
    (topic / "segment-00000000.jsonl").write_bytes(b"1\ntorn")
    (topic / "segment-00000001.jsonl").write_bytes(b"2\n")
    one = consumer(tmp_path)
    records = one.poll(2, 0)
    assert [record.value for record in records] == [b"1", b"torn"]

    one.commit(records[1])

    assert polled(consumer(tmp_path)) == [b"2"]


def test_a_broken_position_is_told_with_its_remedy(tmp_path: Path) -> None:
    publish(tmp_path, b"1")
    one = consumer(tmp_path)
    one.commit(one.poll(1, 0)[0])
    (file,) = (tmp_path / "positions").iterdir()
    file.write_text("{", "utf-8")

    with pytest.raises(SinkError, match="delete it to begin with the oldest record"):
        consumer(tmp_path)


def test_a_poll_ends_with_the_record_that_reaches_its_bytes(tmp_path: Path) -> None:
    publish(tmp_path, *(b"x" * 1_000 for _ in range(10)))
    one = consumer(tmp_path)
    assert [len(one.poll(1_000, 0, 2_500)) for _ in range(5)] == [3, 3, 3, 1, 0]


@pytest.mark.parametrize(
    ("uri", "topic"),
    [
        ("file:///var/telemetry", TopicUri("file", "", "/var/telemetry")),
        ("file:///var/with%20space/", TopicUri("file", "", "/var/with space")),
        ("file://localhost/var/t", TopicUri("file", "", "/var/t")),
        ("kafka://broker-1:9092/telemetry", TopicUri("kafka", "broker-1:9092", "telemetry")),
        (
            "pulsar://[::1]:6650/public/default/telemetry",
            TopicUri("pulsar", "[::1]:6650", "public/default/telemetry"),
        ),
    ],
)
def test_topics_that_can_be_named(uri: str, topic: TopicUri) -> None:
    assert parse_topic(uri) == topic
    assert parse_topic(str(topic)) == topic


def test_a_file_topic_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "größe mit raum"
    assert parse_topic(file_topic_uri(folder)).folder == folder


@pytest.mark.parametrize("uri", ["kafka://h:1/t", "pulsar://h:1/a/b/c"])
def test_only_a_file_topic_has_a_folder(uri: str) -> None:
    with pytest.raises(SettingsError, match=r"needs a file topic; use file:///folder\."):
        _ = parse_topic(uri).folder


def test_pulsar_may_have_several_servers_and_tls() -> None:
    topic = parse_topic("pulsar+ssl://a:6651,b:6651/x/y/z")
    assert topic.scheme == "pulsar"
    assert topic.service_url == "pulsar+ssl://a:6651,b:6651"
    assert str(topic) == "pulsar+ssl://a:6651,b:6651/x/y/z"
    assert parse_topic(str(topic)) == topic
    assert topic.identity == parse_topic("pulsar://c:6650/x/y/z").identity == "pulsar:///x/y/z"


def test_kafka_may_have_several_servers() -> None:
    topic = parse_topic("kafka://a:9092,b:9093/t")
    assert topic.servers == "a:9092,b:9093"
    assert topic.name == "t"
    assert str(topic) == "kafka://a:9092,b:9093/t"
    assert topic.identity == "kafka:///t"

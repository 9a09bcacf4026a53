"""Topics by URI: what each scheme looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.topics.addresses import TopicUri, file_topic_uri, parse_topic
from strategies.errors import SettingsError


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
    assert (topic.scheme, topic.service_url, str(topic)) == (
        "pulsar",
        "pulsar+ssl://a:6651,b:6651",
        "pulsar+ssl://a:6651,b:6651/x/y/z",
    )
    assert parse_topic(str(topic)) == topic
    assert topic.identity == parse_topic("pulsar://c:6650/x/y/z").identity == "pulsar:///x/y/z"


def test_kafka_may_have_several_servers() -> None:
    topic = parse_topic("kafka://a:9092,b:9093/t")
    assert (topic.servers, topic.name, str(topic), topic.identity) == (
        "a:9092,b:9093",
        "t",
        "kafka://a:9092,b:9093/t",
        "kafka:///t",
    )

"""Topics by URI: what each scheme looks like, and what is said about URIs that look otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.topics.uri import TopicUri, file_topic_uri, parse_topic
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


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "telemetry",
        "/var/telemetry",
        "file://var/telemetry",
        "file:telemetry",
        "file:///",
        "http://host:80/topic",
        "kafka://host/topic",
        "kafka://host:9092",
        "kafka://host:9092/",
        "kafka://host:9092/a/b",
        "kafka://host:port/topic",
        "pulsar://host:6650/topic",
        "pulsar://host:6650/a//c",
        "pulsar://host:6650/a/b/c/d",
        "pulsar://[::1:6650/a/b/c",
    ],
)
def test_other_uris_are_told_how_they_should_look(uri: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_topic(uri)
    [complaint] = raised.value.complaints
    assert complaint.startswith(f"{uri}: ")
    assert complaint.endswith(
        "write file:///folder, kafka://host:port/topic or "
        "pulsar://host:port/tenant/namespace/topic."
    )


@pytest.mark.parametrize("name", ["load%20reports", "load!", "..", "t" * 250])
def test_kafka_takes_only_plain_names(name: str) -> None:
    with pytest.raises(
        SettingsError,
        match=r"Kafka names topics with letters, digits, '\.', '_' and '-', at most 249 of them",
    ):
        parse_topic(f"kafka://host:9092/{name}")


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


@pytest.mark.parametrize(
    "uri",
    ["kafka://a:9092,b/t", "kafka://,a:1/t", "kafka://user:word@a:1/t", "pulsar://a:1,b/x/y/z"],
)
def test_every_server_has_a_port_and_nobody_logs_in_by_uri(uri: str) -> None:
    with pytest.raises(SettingsError, match=r"names no host:port"):
        parse_topic(uri)

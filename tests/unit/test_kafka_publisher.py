"""A Kafka topic that is gone and a broker that is gone end in the same error of the client, and in different ones of ours."""

from __future__ import annotations

import socket
from collections.abc import Collection
from typing import NoReturn

import pytest
from kafka.errors import KafkaTimeoutError

from sinks.topics.kafka.settings import KafkaAccess, KafkaSettings, kafka_access
from sinks.topics.kafka.topic import KafkaPublisher
from sinks.topics.uri import TopicUri, parse_topic
from strategies.errors import PublishTimeout, SinkError

MISSING_TOPICS = "sinks.topics.kafka.topic.missing_topics"


class Producer:
    """kafka-python's, once the broker or the topic is gone: it waits for metadata and says the same of both."""

    def __init__(self, **_: object) -> None:
        """Connected."""

    def send(self, *_: object, **__: object) -> NoReturn:
        raise KafkaTimeoutError("Failed to update metadata after 1.0 secs.")

    def close(self, timeout: float) -> None:
        """Nothing is open."""


def none_of_them(topics: Collection[TopicUri], access: KafkaAccess) -> list[TopicUri]:
    return []


def all_of_them(topics: Collection[TopicUri], access: KafkaAccess) -> list[TopicUri]:
    return list(topics)


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> KafkaPublisher:
    """Its topic was there when it was opened; at its address there is no broker any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr("kafka.KafkaProducer", Producer)
    with monkeypatch.context() as then:
        then.setattr(MISSING_TOPICS, none_of_them)
        return KafkaPublisher(parse_topic(f"kafka://127.0.0.1:{port}/t"), kafka_access(KafkaSettings(timeout_ms=1_000)))


def test_a_broker_that_dies_before_the_first_publish_is_an_outage(publisher: KafkaPublisher) -> None:
    with pytest.raises(PublishTimeout, match="no answer; check that the broker runs") as raised:
        publisher.publish("c", b"{}")
    assert raised.value.retryable
    assert "no such topic" not in str(raised.value)


def test_a_topic_that_is_deleted_before_the_first_publish_is_missing(publisher: KafkaPublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MISSING_TOPICS, all_of_them)
    with pytest.raises(SinkError, match="there is no such topic") as raised:
        publisher.publish("c", b"{}")
    assert not raised.value.retryable


def test_a_broker_that_answers_again_is_no_missing_topic(publisher: KafkaPublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MISSING_TOPICS, none_of_them)
    with pytest.raises(PublishTimeout, match="Failed to update metadata"):
        publisher.publish("c", b"{}")

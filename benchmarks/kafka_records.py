"""Publishes a made-up fleet's telemetry to Kafka, as fast as it goes or spread over time."""

import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Self

from benchmarks.fleet import CLUSTER, Fleet
from sinks.topics.topic_settings import TopicUri
from tests.topic_uris import topic_of

_KEY = CLUSTER.encode()


class KeyedPublisher:
    """A Kafka producer for one topic."""

    def __init__(self, uri: str | TopicUri) -> None:
        from kafka import KafkaProducer

        topic = topic_of(uri)
        self._topic = topic.name
        self._producer: Any = KafkaProducer(
            bootstrap_servers=topic.servers, linger_ms=0, batch_size=2**18, max_request_size=2**24
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def publish_keyed(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Keys and values, at once. Returns when the broker has all of them."""
        for key, value in records:
            self._producer.send(self._topic, value, key=key)
        self._producer.flush()


class Publisher(KeyedPublisher):
    """Publishes records of one cluster."""

    def publish(self, values: Iterable[bytes], *, per_second: float = 0) -> None:
        """Returns when the broker has all of them. `per_second`: records, evenly; 0 = at once."""
        began = time.monotonic()
        for number, value in enumerate(values):
            if per_second:
                time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            self._producer.send(self._topic, value, key=_KEY)
        self._producer.flush()


def passes(fleet: Fleet) -> Iterator[bytes]:
    """Pass after pass over the fleet, without end: a report of every broker, then the sweep that
    closes the round.
    """
    for number in count():
        yield from fleet.reports(number)
        yield fleet.sweep(number)

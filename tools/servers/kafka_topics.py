"""Puts records on a Kafka topic and reads all that is there, with the plainest means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sinks.topics.topic_settings import TopicUri
from sinks.wire.record_decoding import cluster_of
from tests.topic_uris import topic_of


class Read(NamedTuple):
    """One record of a topic."""

    partition: int
    offset: int
    key: str | None
    value: bytes


@dataclass(frozen=True)
class Raw:
    """A record with its key, headers and time (ms)."""

    value: bytes | None
    key: str | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    at: int | None = None


def put(
    uri: str | TopicUri, values: Sequence[bytes], times: Sequence[int | None] | None = None
) -> None:
    """Publishes with the cluster as the key, as a collector does; returns when all are there.
    `times`: of the records, in ms.
    """
    from kafka import KafkaProducer

    topic = topic_of(uri)
    producer = KafkaProducer(bootstrap_servers=topic.servers, linger_ms=5, max_request_size=2**24)
    sent = [
        producer.send(topic.name, value, key=cluster_of(value).encode() or None, timestamp_ms=at)
        for value, at in zip(values, times or [None] * len(values), strict=True)
    ]
    producer.flush()
    for one in sent:
        one.get(120)
    producer.close()


def put_raw(uri: str | TopicUri, records: Sequence[Raw]) -> None:
    """Publishes records with what stands around their values."""
    from kafka import KafkaProducer

    topic = topic_of(uri)
    producer = KafkaProducer(bootstrap_servers=topic.servers, linger_ms=5)
    sent = [
        producer.send(
            topic.name,
            one.value,
            key=one.key and one.key.encode(),
            headers=list(one.headers.items()),
            timestamp_ms=one.at,
        )
        for one in records
    ]
    producer.flush()
    for future in sent:
        future.get(120)
    producer.close()


def everything(uri: str | TopicUri) -> list[Read]:
    """All records that are there now, partition by partition."""
    from kafka import KafkaConsumer, TopicPartition

    topic = topic_of(uri)
    consumer = KafkaConsumer(
        bootstrap_servers=topic.servers, enable_auto_commit=False, fetch_max_wait_ms=50
    )
    partitions = [
        TopicPartition(topic.name, number)
        for number in sorted(consumer.partitions_for_topic(topic.name) or ())
    ]
    ends = consumer.end_offsets(partitions)
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    found: list[Read] = []
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        for records in consumer.poll(200).values():
            found += [
                Read(one.partition, one.offset, one.key and one.key.decode(), one.value or b"")
                for one in records
            ]
    consumer.close()
    return sorted(found)


def values(uri: str | TopicUri) -> list[bytes]:
    """Only the values, partition by partition."""
    return [one.value for one in everything(uri)]

"""What a process without Spark needs of a topic, wherever it lies: records in order with a commit, and a publisher that flushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter, TopicRecord
from sinks.topics.kafka.settings import KafkaSettings, kafka_access
from sinks.topics.kafka.topic import KafkaPublisher, KafkaTopicConsumer
from sinks.topics.pulsar.partition import QUEUE
from sinks.topics.pulsar.topic import PulsarPublisher, PulsarRest, PulsarTopicConsumer
from sinks.topics.uri import TopicUri
from sinks.wire.limits import DEFAULT_LIMITS, WireLimits
from sinks.wire.raw import SourceSettings, check_source
from strategies.errors import SinkError

__all__ = ["Consumer", "Publisher", "Reader", "TopicAccess", "TopicRecord", "open_consumer", "open_publisher", "open_reader"]

#: For recordings, which hold what was sent.
WHOLE = WireLimits(max_record_bytes=2**40)
_READ_BYTES = 16 * 2**20
_READ_RECORDS = 2_000


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """How the servers are reached on which topics lie."""

    kafka: KafkaSettings = KafkaSettings()
    pulsar: PulsarSettings = PulsarSettings()


NO_SECURITY = TopicAccess()


class Consumer(Protocol):
    """Reads a topic in order and remembers how far it was worked off. All methods raise SinkError."""

    def poll(self, max_records: int, timeout_s: float, max_bytes: int | None = None) -> Sequence[TopicRecord]:
        """The next records; none when nothing came within `timeout_s`. Records that were polled are not polled again.

        Ends with the record that reaches `max_bytes`.
        """
        ...

    def commit(self, record: TopicRecord) -> None:
        """The next start goes on behind this record; on the disk, or with the server, when this returns."""
        ...

    def close(self) -> None:
        """Lets go of the topic; what was not committed comes again."""
        ...


class Publisher(Protocol):
    """Writes to a topic. All methods raise SinkError."""

    def publish(self, key: str, value: bytes) -> None:
        """Hands a record over; it may wait until `flush`."""
        ...

    def flush(self) -> None:
        """Returns when everything that was published before is safe on the topic."""
        ...

    def close(self) -> None:
        """Lets go of the topic; does not flush."""
        ...


class Reader(Protocol):
    """Reads a topic once, for copies and replays. All methods raise SinkError."""

    def read(self) -> Sequence[TopicRecord]:
        """The next records; none when all that was there at the start was read or, when it follows, when nothing has come."""
        ...

    def close(self) -> None:
        """Lets go of the topic."""
        ...


class FilePublisher:
    """A Publisher of a file topic; keys stand in the records themselves there."""

    def __init__(self, folder: Path) -> None:
        self._writer = FileTopicWriter(folder, sync=True)
        self._waiting: list[bytes] = []

    def publish(self, key: str, value: bytes) -> None:
        """See Publisher."""
        self._waiting.append(value)

    def flush(self) -> None:
        """See Publisher."""
        if self._waiting:
            self._writer.append(self._waiting)
        self._waiting.clear()

    def close(self) -> None:
        """See Publisher."""
        self._writer.close()


class FileRest:
    """All that a file topic holds, and with `follow` what comes."""

    def __init__(self, folder: Path, topic: str, limits: WireLimits, follow: bool, since_ms: int | None = None) -> None:
        self._reader = FileTopicReader(folder, topic, limits)
        begin = self._reader.begin() if since_ms is None else self._reader.written_since(since_ms)
        self._next, self._end = begin, None if follow else self._reader.end()

    def read(self) -> Sequence[TopicRecord]:
        """See Reader."""
        records, self._next = self._reader.read(self._next, max_bytes=_READ_BYTES, end=self._end)
        return records

    def close(self) -> None:
        """Nothing to let go of."""


class KafkaRest:
    """The same of a Kafka topic: partition by partition in order, partitions as they come."""

    def __init__(self, consumer: KafkaTopicConsumer, follow: bool) -> None:
        self._consumer, self._follow = consumer, follow

    def read(self) -> Sequence[TopicRecord]:
        """See Reader."""
        return self._consumer.poll(_READ_RECORDS, 0.05) if self._follow else self._consumer.rest(_READ_RECORDS)

    def close(self) -> None:
        """See Reader."""
        self._consumer.close()


def open_consumer(
    topic: TopicUri, group: str, folder: Path, limits: WireLimits = DEFAULT_LIMITS, access: TopicAccess = NO_SECURITY, *, ahead: int = QUEUE
) -> Consumer:
    """A consumer that goes on where the one of the same group stopped, at first with the oldest record.

    `folder`: where positions are kept for topics that cannot keep them. `ahead`: records that a Pulsar broker sends before they are polled.
    Raises SettingsError, SinkError.
    """
    if topic.scheme == "kafka":
        return KafkaTopicConsumer(topic, group, kafka_access(access.kafka), limits)
    if topic.scheme == "pulsar":
        return PulsarTopicConsumer(topic, group, access.pulsar, limits, ahead)
    return FileConsumer(topic.folder, str(topic), group, folder, limits)


def open_publisher(topic: TopicUri, access: TopicAccess = NO_SECURITY) -> Publisher:
    """Raises SettingsError, SinkError."""
    if topic.scheme == "kafka":
        return KafkaPublisher(topic, kafka_access(access.kafka))
    return PulsarPublisher(topic, access.pulsar) if topic.scheme == "pulsar" else FilePublisher(topic.folder)


def open_reader(
    topic: TopicUri,
    access: TopicAccess = NO_SECURITY,
    *,
    follow: bool = False,
    limits: WireLimits = WHOLE,
    source: SourceSettings = SourceSettings(),
    since_ms: int | None = None,
) -> Reader:
    """Reads a topic from its oldest record, committing nothing; by default records are not cut. Raises SettingsError, SinkError.

    `source`: what stands in its records, where they are telemetry. `since_ms`: leaves out what was published before (ms since the epoch);
    of a file topic, the segments that were last written to before.
    """
    check_source(str(topic), source)
    if topic.scheme == "kafka":
        return KafkaRest(KafkaTopicConsumer(topic, None, kafka_access(access.kafka), limits, source, since_ms=since_ms), follow)
    if topic.scheme == "pulsar":
        return PulsarRest(topic, access.pulsar, limits, follow, most=_READ_RECORDS, since_ms=since_ms)
    if not follow and not topic.folder.is_dir():
        raise SinkError(f"{topic}: there is no such topic yet; correct its name, or start what writes there (record --follow waits)")
    return FileRest(topic.folder, str(topic), limits, follow, since_ms)

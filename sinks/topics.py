"""What a process without Spark needs of a topic, wherever it lies: records in order with a commit, and a publisher that flushes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sinks.file_consumer import FileConsumer
from sinks.file_topic import FileTopicWriter, TopicRecord
from sinks.limits import DEFAULT_LIMITS, WireLimits
from sinks.topic_uri import parse_topic

__all__ = ["Consumer", "Publisher", "TopicRecord", "open_consumer", "open_publisher"]


class Consumer(Protocol):
    """Reads a topic in order and remembers how far it was worked off. All methods raise SinkError."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[TopicRecord]:
        """The next records; none when nothing came within `timeout_s`. Records that were polled are not polled again."""
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


def open_consumer(uri: str, group: str, folder: Path, limits: WireLimits = DEFAULT_LIMITS) -> Consumer:
    """A consumer that goes on where the one of the same group stopped, at first with the oldest record.

    `folder`: where positions are kept for topics that cannot keep them. Raises SettingsError, SinkError.
    """
    topic = parse_topic(uri)
    return FileConsumer(topic.folder, str(topic), group, folder, limits)


def open_publisher(uri: str) -> Publisher:
    """Raises SettingsError, SinkError."""
    return FilePublisher(parse_topic(uri).folder)

"""Topics for processes without Spark: open a consumer that commits, a reader, or a publisher that
flushes, and find the present end, for any kind of topic.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.segments import segments
from sinks.topics.files.topic import (
    FileTopicReader,
    FileTopicWriter,
    TopicRecord,
)
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.kafka.topic import KafkaPublisher, KafkaTopicConsumer
from sinks.topics.pulsar.partition import QUEUE, PulsarLink
from sinks.topics.pulsar.topic import PulsarPublisher, PulsarReader, PulsarTopicConsumer
from sinks.topics.topic_settings import NO_SECURITY, TopicAccess, TopicUri
from sinks.wire.raw_broker_reports import SourceSettings, check_source
from sinks.wire.record_decoding import DEFAULT_LIMITS, WireLimits
from strategies.errors import SinkError

__all__ = [
    "Consumer",
    "Publisher",
    "Reader",
    "TopicRecord",
    "open_consumer",
    "open_publisher",
    "open_reader",
]

#: For recordings, whose values are already decompressed.
WHOLE = WireLimits(max_record_bytes=2**40)
_READ_BYTES = 16 * 2**20


class Consumer(Protocol):
    """Reads a topic in order and stores its position. All methods raise SinkError."""

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        """Returns the next records, none if none arrive within `timeout_s`. A record is returned
        once.

        Stops after the record that reaches `max_bytes`.
        """

    def commit(self, record: TopicRecord) -> None:
        """Stores the position after this record, on the disk or on the server. The next start
        continues there.
        """

    def close(self) -> None:
        """Closes the consumer; uncommitted records are delivered again."""


class Publisher(Protocol):
    """Writes to a topic. All methods raise SinkError."""

    def publish(self, key: str, value: bytes) -> None:
        """Sends a record; it may be buffered until `flush`."""

    def flush(self) -> None:
        """Returns when all records published before are stored on the topic."""

    def close(self) -> None:
        """Closes the publisher without flushing."""


class Reader(Protocol):
    """Reads a topic once, for copies and replays. All methods raise SinkError."""

    def read(self) -> Sequence[TopicRecord]:
        """The next records; none at the end of what existed at the start or, when following, if
        none have arrived.
        """

    def close(self) -> None:
        """Closes the reader."""


class FileReader:
    """The Reader of a file topic; with `follow` also of records that arrive later."""

    def __init__(
        self,
        folder: Path,
        topic: str,
        limits: WireLimits,
        follow: bool,
        since_ms: int | None = None,
    ) -> None:
        # A copy of what is there: what is deleted meanwhile is not.
        self._reader = FileTopicReader(
            folder,
            topic,
            limits,
            skip_deleted=not follow,
            begin_again="start the command again",
        )
        begin = self._reader.begin() if since_ms is None else self._reader.written_since(since_ms)
        self._next, self._end = begin, None if follow else self._reader.end()

    def read(self) -> Sequence[TopicRecord]:
        """See Reader."""
        records, self._next = self._reader.read(self._next, max_bytes=_READ_BYTES, end=self._end)
        return records

    def close(self) -> None:
        """Does nothing: no file is open between two reads."""


def open_consumer(
    topic: TopicUri,
    group: str,
    folder: Path,
    limits: WireLimits = DEFAULT_LIMITS,
    access: TopicAccess = NO_SECURITY,
    *,
    ahead: int = QUEUE,
) -> Consumer:
    """A consumer that continues at the position of its group, or at the oldest record if the group
    has none.

    `folder`: stores positions of topics that cannot. `ahead`: number of records that a Pulsar
    broker sends before they are polled. Raises SettingsError, SinkError.
    """
    if topic.scheme == "kafka":
        return KafkaTopicConsumer(topic, group, kafka_access(access.kafka), limits)
    if topic.scheme == "pulsar":
        return PulsarTopicConsumer(topic, group, access.pulsar, limits, ahead)
    return FileConsumer(
        topic.folder,
        str(topic),
        group,
        folder,
        limits,
        skip_deleted=not access.files.fail_on_data_loss,
    )


def open_publisher(topic: TopicUri, access: TopicAccess = NO_SECURITY) -> Publisher:
    """The publisher of a topic. Raises SettingsError, SinkError."""
    if topic.scheme == "kafka":
        return KafkaPublisher(topic, kafka_access(access.kafka))
    if topic.scheme == "pulsar":
        return PulsarPublisher(topic, access.pulsar)
    return FileTopicWriter(topic.folder, sync=True, retention_ms=access.files.retention_ms)


def open_reader(
    topic: TopicUri,
    access: TopicAccess = NO_SECURITY,
    *,
    follow: bool = False,
    limits: WireLimits = WHOLE,
    source: SourceSettings = SourceSettings(),
    since_ms: int | None = None,
) -> Reader:
    """A reader that begins with the oldest record and commits nothing; by default it does not cut
    records. Raises SettingsError, SinkError.

    `source`: format of telemetry records. `since_ms`: skips records published before (ms since the
    epoch); on file topics, segments last written before.
    """
    check_source(str(topic), source)
    if topic.scheme == "kafka":
        given = kafka_access(access.kafka)
        return KafkaTopicConsumer(
            topic, None, given, limits, source, follow=follow, since_ms=since_ms
        )
    if topic.scheme == "pulsar":
        return PulsarReader(topic, access.pulsar, limits, follow, since_ms=since_ms)
    if not follow and not topic.folder.is_dir():
        raise SinkError(
            f"{topic}: the topic does not exist; correct its name, or start its writer "
            "(record --follow waits)"
        )
    return FileReader(topic.folder, str(topic), limits, follow, since_ms)


def records_of(
    topic: TopicUri,
    access: TopicAccess = NO_SECURITY,
    since_ms: int | None = None,
    source: SourceSettings = SourceSettings(),
    limits: WireLimits = WHOLE,
) -> Iterator[TopicRecord]:
    """All present records of a topic; none of a file topic that does not exist yet. `since_ms`,
    `source`, `limits`: see `open_reader`. Raises SettingsError, SinkError.
    """
    if topic.scheme == "file" and not topic.folder.is_dir():
        return
    with closing(
        open_reader(topic, access, limits=limits, source=source, since_ms=since_ms)
    ) as reader:
        while records := reader.read():
            yield from records


#: Greater than all offsets: nothing is appended to a segment that has a successor.
_FULL = 2**63 - 1


def ends(topic: TopicUri, access: TopicAccess = NO_SECURITY) -> dict[int, int]:
    """Partition → a number greater than the offsets of all its records, and at most that of the
    next one. Partitions of a file topic are its segments; empty ones may be absent. Raises
    SettingsError, SinkError, PublishTimeout.
    """
    if topic.scheme == "kafka":
        consumer = KafkaTopicConsumer(topic, None, kafka_access(access.kafka), DEFAULT_LIMITS)
        with closing(consumer):
            return consumer.ends
    if topic.scheme == "pulsar":
        with closing(PulsarLink(topic, access.pulsar)) as link:
            newest = {number: link.last(name) for number, name in enumerate(link.partitions())}
        return {number: id_.offset + 1 for number, id_ in newest.items() if id_ is not None}
    end = FileTopicReader(topic.folder).end()
    return {
        **dict.fromkeys((one for one in segments(topic.folder) if one < end.segment), _FULL),
        end.segment: end.byte,
    }

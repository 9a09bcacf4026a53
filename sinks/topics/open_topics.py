"""Topics for processes without Spark: open a consumer that commits, a reader, or a publisher that
flushes, and find the present end, for any kind of topic; and skip what is unreadable.

A topic may contain anything: records of a later version, of another program, or bytes that are not
JSON. None of them ends a command that reads for people: it skips and counts them, and reports their
positions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.segments import segments
from sinks.topics.files.topic import (
    FileTopicReader,
    FileTopicWriter,
    TopicRecord,
)
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.kafka.topic import KafkaPublisher, KafkaTopicConsumer
from sinks.topics.pulsar.partition import QUEUE, PulsarLink, id_at, is_shared
from sinks.topics.pulsar.topic import PulsarPublisher, PulsarReader, PulsarTopicConsumer
from sinks.topics.topic_settings import NO_SECURITY, TopicAccess, TopicUri
from sinks.wire.raw_broker_reports import SourceSettings, check_source
from sinks.wire.record_decoding import DEFAULT_LIMITS, Position, WireLimits
from strategies.errors import SinkError, WireError

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
T = TypeVar("T")
#: Positions in a message before the rest is only counted.
_PLACES = 3


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


@dataclass(slots=True)
class _Reason:
    """Records skipped for one reason: the first positions, and the complaint about the first
    record.
    """

    text: str
    places: list[str] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class Skipped:
    """Records of `source` that were skipped. `kind`: the expected kind, in the singular, for
    example "command".
    """

    source: str
    kind: str
    reasons: dict[str, _Reason] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(reason.count for reason in self.reasons.values())

    def add(self, position: Position, error: WireError) -> None:
        """Adds a skipped record."""
        reason = self.reasons.setdefault(error.code, _Reason(error.text))
        reason.count += 1
        if len(reason.places) < _PLACES:
            reason.places.append(place(position))

    def lines(self) -> list[str]:
        """One line per reason code: the number of records, the first positions, and the complaint
        about the first record.
        """
        return [_line(self, code, reason) for code, reason in self.reasons.items()]


def readable(
    records: Iterable[TopicRecord], decode: Callable[[bytes], T], skipped: Skipped
) -> Iterator[tuple[Position, T]]:
    """The decoded records with their positions. A record that is unread, or for which `decode`
    raises WireError, goes to `skipped`.
    """
    for record in records:
        try:
            check_read(record)
            decoded = decode(record.value)
        except WireError as error:
            skipped.add(record.position, error)
        else:
            yield record.position, decoded


def check_read(record: TopicRecord) -> None:
    """Raises WireError for a position of the topic that cannot be read."""
    if record.unread:
        raise WireError("unreadable-batch", record.unread)


def place(position: Position) -> str:
    """The position as the topic's own tools print it; in a recording, the byte offset in the
    uncompressed file.
    """
    topic, partition, offset = position
    match topic.partition("://")[0] if "://" in topic else "":
        case "kafka":
            return f"partition {partition}, offset {offset}"
        case "pulsar" | "pulsar+ssl":
            found = id_at(offset)
            later = " or a later one" if is_shared(found) else ""
            return (
                f"partition {partition}, message {found.ledger}:{found.entry}:{found.batch}{later}"
            )
        case "file":
            return f"segment {partition}, byte {offset}"
        case _:
            return f"byte {offset}"


def _line(skipped: Skipped, code: str, reason: _Reason) -> str:
    what = (
        f"1 record that is no {skipped.kind}"
        if reason.count == 1
        else f"{reason.count} records that are no {skipped.kind}s"
    )
    more = (
        f" and {reason.count - len(reason.places)} more"
        if reason.count > len(reason.places)
        else ""
    )
    return (
        f"{skipped.source}: skipped {what} [{code}]: {'; '.join(reason.places)}{more}. "
        f"{reason.text}"
    )


def check_complete(record: TopicRecord, limits: WireLimits, kind: str) -> None:
    """Raises WireError for a record that was not read, or not as a whole. `kind`: see `Skipped`."""
    check_read(record)
    if record.size > limits.max_record_bytes:
        raise WireError(
            "too-large",
            f"The record has {record.size} bytes, more than wire.max_record_bytes; no {kind} is "
            "that large.",
        )

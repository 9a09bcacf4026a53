"""Reads one partition of a Pulsar topic from any position, repeatedly and without a subscription.
Maps message ids to one number for readers that need an offset.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.files.topic import TopicRecord
from sinks.topics.pulsar.client import open_client, pulsar_errors, quietly
from sinks.topics.topic_settings import TopicUri
from sinks.wire.record_decoding import DEFAULT_LIMITS, Position, WireLimits, clip
from strategies.errors import PublishTimeout, SinkError

if TYPE_CHECKING:
    import pulsar

#: 63 bits: BookKeeper assigns ledger ids of 31 bits; by default brokers close a ledger after 50,000
#: entries and clients a batch after 1,000 messages.
_LEDGER_BITS, _ENTRY_BITS, _BATCH_BITS = 31, 20, 12
_LAST_ENTRY, _LAST_IN_BATCH = (1 << _ENTRY_BITS) - 1, (1 << _BATCH_BITS) - 1


class MessageId(NamedTuple):
    """A message id, ordered as the messages of a partition. `batch`: index within the entry; -1 for
    an entry with one message.
    """

    ledger: int
    entry: int
    batch: int

    @property
    def offset(self) -> int:
        """An offset that never decreases while ids grow: ledger · 2³² + entry · 2¹² + index in the
        batch.

        Messages after the 4,096th of a batch, or the 2²⁰th entry of a ledger, share the largest
        offset of their entry or ledger. Raises SinkError for a ledger beyond 2³¹.
        """
        if self.ledger >> _LEDGER_BITS:
            raise SinkError(
                f"message {self.ledger}:{self.entry}:{self.batch}: ledger ids must be below "
                f"2^{_LEDGER_BITS}; use a topic on a "
                "cluster whose BookKeeper assigns such ids"
            )
        batch = (
            min(max(0, self.batch), _LAST_IN_BATCH) if self.entry <= _LAST_ENTRY else _LAST_IN_BATCH
        )
        return (
            self.ledger << (_ENTRY_BITS + _BATCH_BITS)
            | min(self.entry, _LAST_ENTRY) << _BATCH_BITS
            | batch
        )

    def for_client(self) -> "pulsar.MessageId":
        """The id as Pulsar's client expects it."""
        import pulsar

        made: pulsar.MessageId = pulsar.MessageId(-1, self.ledger, self.entry, self.batch)._msg_id
        return made


def id_of(found: Any) -> MessageId:
    """The id of a message of Pulsar's client."""
    return MessageId(found.ledger_id(), found.entry_id(), found.batch_index())


def id_at(offset: int) -> MessageId:
    """The first id with this offset; `batch` is 0 for an entry with one message."""
    entries = offset >> _BATCH_BITS
    return MessageId(entries >> _ENTRY_BITS, entries & _LAST_ENTRY, offset & _LAST_IN_BATCH)


def is_shared(id_: MessageId) -> bool:
    """True if later messages may have the same offset."""
    return id_.batch >= _LAST_IN_BATCH


#: Messages that the broker sends ahead; each may be as large as the load report of a large broker.
QUEUE = 500


class Read(NamedTuple):
    """A record and its message id."""

    id: MessageId
    record: TopicRecord


class PulsarLink:
    """A connection to the brokers of one topic. All methods raise SinkError and PublishTimeout."""

    def __init__(
        self, topic: TopicUri, settings: PulsarSettings, limits: WireLimits = DEFAULT_LIMITS
    ) -> None:
        """Connects on first use. `limits`: size limits of records. Raises SettingsError."""
        self.topic = topic
        self.limits = limits
        self.settings = settings
        self.client: pulsar.Client = open_client(topic.service_url, settings)

    @property
    def name(self) -> str:
        """The topic's name in Pulsar."""
        return f"persistent://{self.topic.name}"

    @property
    def timeout_s(self) -> float:
        """Timeout for messages that are known to exist."""
        return self.settings.deadline_ms / 1000

    def partitions(self) -> list[str]:
        """Names of all partitions, by number; the topic itself if it is not partitioned."""
        with self.errors():
            found: list[str] = self.client.get_topic_partitions(self.name)
        return sorted(
            found,
            key=lambda name: int(name.rpartition("-partition-")[2]) if name != self.name else 0,
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Converts errors of the client to ours."""
        with pulsar_errors(str(self.topic), self.topic.service_url, self.settings):
            yield

    def last(self, partition: str) -> MessageId | None:
        """The id of a partition's newest message; None if it is empty."""
        import pulsar

        with self._one_message(partition, pulsar.MessageId.latest) as reader:
            return self._next_id(reader)

    def holds(self, partition: str, id_: MessageId) -> bool:
        """True if a message that was read before still exists, or nothing newer does."""
        newest = self.last(partition)
        if newest is None or newest <= id_:
            return newest in (None, id_)
        with self._one_message(partition, id_.for_client()) as reader:
            return id_of(reader.read_next(int(self.timeout_s * 1000)).message_id()) == id_

    def since(self, partition: str, ms: int) -> MessageId | None:
        """The id of the first message published at `ms` (since 1970) or later; None if there is
        none yet.
        """
        import pulsar

        with self._one_message(partition, pulsar.MessageId.earliest, False) as reader:
            reader.seek(ms)
            return self._next_id(reader)

    def at_end(self, partition: str) -> "pulsar.Reader":
        """A reader of the client, positioned after the newest message: for each question about
        newer ones it asks the broker.
        """
        import pulsar

        with self.errors():
            # With a message in its queue, or after seeking to the newest one, it would answer
            # without asking the broker.
            return self.client.create_reader(
                partition,
                pulsar.MessageId.latest,
                start_message_id_inclusive=False,
                receiver_queue_size=0,
            )

    def close(self) -> None:
        """Closes the connection and everything opened through it."""
        quietly(self.client.close)

    @contextmanager
    def _one_message(
        self, partition: str, start: "pulsar.MessageId", inclusive: bool = True
    ) -> "Iterator[pulsar.Reader]":
        """A reader of the client that starts at this message, for one message."""
        with (
            self.errors(),
            closing(
                self.client.create_reader(
                    partition,
                    start,
                    start_message_id_inclusive=inclusive,
                    receiver_queue_size=1,
                )
            ) as reader,
        ):
            yield reader

    def _next_id(self, reader: "pulsar.Reader") -> MessageId | None:
        if not reader.has_message_available():
            return None
        return id_of(reader.read_next(int(self.timeout_s * 1000)).message_id())


class PartitionReader:
    """The messages of one partition in order. Creates no subscription, so it does not keep messages
    from being deleted.
    """

    def __init__(self, link: PulsarLink, number: int, name: str, after: MessageId | None) -> None:
        """`after`: starts after this message; None: with the oldest. Raises SinkError,
        PublishTimeout.
        """
        import pulsar

        self._link = link
        self._number = number
        self.at = after
        start = pulsar.MessageId.earliest if after is None else after.for_client()
        with link.errors():
            self._reader = link.client.create_reader(name, start, receiver_queue_size=QUEUE)

    def read(self, timeout_s: float) -> Read | None:
        """The next message; None if none arrives within `timeout_s`. Raises SinkError,
        PublishTimeout.
        """
        import pulsar

        with self._link.errors():
            while True:
                try:
                    message = self._reader.read_next(max(1, int(timeout_s * 1000)))
                except pulsar.Timeout:
                    return None
                id_ = id_of(message.message_id())
                # After a lost connection the client may deliver the messages of an entry again.
                if self.at is None or id_ > self.at:
                    break
        self.at = id_
        return Read(id_, record_of(message, self._link.topic, self._number, self._link.limits))

    def seek(self, ms: int) -> None:
        """Continues with the first message published at `ms` (since 1970) or later. Raises
        SinkError, PublishTimeout.
        """
        with self._link.errors():
            self._reader.seek(ms)

    def read_until(self, end: MessageId) -> Iterator[Read]:
        """All messages up to `end`, which exists. Raises SinkError, PublishTimeout."""
        deadline = time.monotonic() + self._link.timeout_s
        while self.at is None or self.at < end:
            found = self.read(0.2)
            if found is not None:
                if found.id <= end:
                    yield found
                deadline = time.monotonic() + self._link.timeout_s
            elif not self.more():
                return
            elif time.monotonic() > deadline:
                raise PublishTimeout(
                    f"{self._link.topic}: Pulsar does not deliver existing messages; check "
                    "that its brokers and bookies run"
                )

    def more(self) -> bool:
        """True if the broker has unread messages. Raises SinkError, PublishTimeout."""
        with self._link.errors():
            return bool(self._reader.has_message_available())

    @property
    def connected(self) -> bool:
        """True if the reader is connected to a broker; if not, the client is looking for one."""
        return bool(self._reader.is_connected())

    def close(self) -> None:
        """Closes the reader."""
        quietly(self._reader.close)


def record_of(
    message: "pulsar.Message", topic: TopicUri, partition: int, limits: WireLimits
) -> TopicRecord:
    """Converts a message to a record; a message without value becomes an empty record."""
    value: bytes = message.data()
    return TopicRecord(
        Position(str(topic), partition, id_of(message.message_id()).offset),
        clip(value, limits),
        len(value),
    )

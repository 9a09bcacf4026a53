"""Kafka topics for processes without Spark: a consumer that commits, a reader of all there is, a publisher that flushes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from sinks.topics.files.topic import TopicRecord
from sinks.topics.kafka.admin import missing_topics
from sinks.topics.kafka.codecs import UnreadBatch, bound_batches
from sinks.topics.kafka.errors import NO_TOPIC, kafka_errors
from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES, KafkaAccess
from sinks.topics.uri import TopicUri
from sinks.wire.limits import WireLimits, clip
from sinks.wire.position import Position
from sinks.wire.raw import Around, SourceSettings, enveloped
from strategies.errors import PublishTimeout, SinkError

_POLL_MS = 200
#: So soon a partition is found that was added to a topic: well before what lies there has expired.
_LOOK_FOR_PARTITIONS_MS = 30_000
#: How long a producer's thread may take to end.
_END_S = 5.0


class KafkaTopicConsumer:
    """Reads all partitions on from where `group` committed last, at first from the oldest record. One process at a time per group."""

    def __init__(
        self,
        topic: TopicUri,
        group: str | None,
        access: KafkaAccess,
        limits: WireLimits,
        source: SourceSettings = SourceSettings(),
        *,
        since_ms: int | None = None,
    ) -> None:
        """Raises SinkError, PublishTimeout. `group`: None reads from the oldest record and commits nothing.

        `since_ms`: begins with the first record that the broker got then or later (ms since the epoch).
        """
        from kafka import KafkaConsumer

        self._topic, self._access, self._limits, self._source = topic, access, limits, source
        self._patience_s = access.settings.timeout_ms / 1000
        self._handed: deque[Position] = deque()
        bound_batches()
        with kafka_errors(topic):
            self._client = KafkaConsumer(
                bootstrap_servers=topic.servers.split(","),
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=_POLL_MS,
                metadata_max_age_ms=_LOOK_FOR_PARTITIONS_MS,
                max_partition_fetch_bytes=8 * 2**20,
                allow_auto_create_topics=False,
                **access.for_python(),
            )
        try:
            with kafka_errors(topic):
                self._take_partitions()
                self._ends = self._client.end_offsets(self._partitions)
                if since_ms is not None:
                    self._begin_at(since_ms)
        except BaseException:
            self.close()
            raise

    def poll(self, max_records: int, timeout_s: float, max_bytes: int | None = None) -> Sequence[TopicRecord]:
        """The next records, up to the one that reaches `max_bytes`; none when nothing came within `timeout_s`.

        What is there already is waited for longer.
        """
        if max_bytes is not None:
            return self._up_to(max_bytes, max_records, timeout_s)
        with self._asked():
            records = self._polled(max_records, timeout_s)
            if not records:
                self._take_partitions()
                self._ends = self._client.end_offsets(self._partitions)
                records = self._behind_the_end(max_records)
        self._handed.extend(record.position for record in records)
        return records

    def _up_to(self, max_bytes: int, max_records: int, timeout_s: float) -> Sequence[TopicRecord]:
        """One by one, out of what the client has fetched: it does not say how large the next records are."""
        found = list(self.poll(1, timeout_s))
        taken = sum(record.size for record in found)
        while found and taken < max_bytes and len(found) < max_records:
            with self._asked():
                more = self._polled(1, 0)
            if not more:
                break
            found += more
            self._handed.extend(record.position for record in more)
            taken += more[0].size
        return found

    def rest(self, max_records: int) -> Sequence[TopicRecord]:
        """The next of the records that were there when the topic was opened; none when all were read."""
        with self._asked():
            return self._behind_the_end(max_records)

    def commit(self, record: TopicRecord) -> None:
        """The next start goes on behind this record and all that were handed out before it; with the broker when this returns."""
        from kafka import OffsetAndMetadata, TopicPartition

        offsets: dict[Any, Any] = {}
        while self._handed:
            position = self._handed.popleft()
            offsets[TopicPartition(self._topic.name, position.partition)] = OffsetAndMetadata(position.offset + 1, "", -1)
            if position == record.position:
                break
        with self._asked():
            self._client.commit(offsets)

    def close(self) -> None:
        """What was not committed comes again."""
        self._client.close(autocommit=False)

    def _take_partitions(self) -> None:
        """All that the topic has; one that is new is read from its beginning, the others go on where they are."""
        from kafka import TopicPartition

        numbers = self._client.partitions_for_topic(self._topic.name)
        if not numbers:
            raise SinkError(f"{self._topic}: {NO_TOPIC}")
        self._partitions = [TopicPartition(self._topic.name, number) for number in sorted(numbers)]
        self._client.assign(self._partitions)

    def _begin_at(self, since_ms: int) -> None:
        found = self._client.offsets_for_times(dict.fromkeys(self._partitions, since_ms))
        for partition, end in self._ends.items():
            first = found.get(partition)
            self._client.seek(partition, end if first is None else first.offset)

    def _asked(self) -> AbstractContextManager[None]:
        return _answering(self._topic, self._access)

    def _behind_the_end(self, max_records: int) -> list[TopicRecord]:
        deadline = time.monotonic() + self._patience_s
        while any(self._client.position(partition) < end for partition, end in self._ends.items()):
            records = self._polled(max_records, _POLL_MS / 1000)
            if records:
                return records
            if time.monotonic() > deadline:
                raise PublishTimeout(f"{self._topic}: records that are there do not come; check that the broker runs")
        return []

    def _polled(self, max_records: int, timeout_s: float) -> list[TopicRecord]:
        """A batch that no reader can use counts as one record at its last offset, without a value: whoever commits it goes on behind."""
        from kafka.errors import CorruptRecordError

        try:
            found = self._client.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        except UnreadBatch as batch:
            self._client.seek(batch.partition, batch.last + 1)
            place = Position(str(self._topic), batch.partition.partition, batch.last)
            return [TopicRecord(place, b"", 0, f"A batch of records cannot be read: {batch}.")]
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{_reason(error)}, {self._unread()}") from error
        return [self._record(record) for records in found.values() for record in records]

    def _unread(self) -> str:
        """Where reading would go on, so that a batch which cannot be read can be found."""
        places = [(partition.partition, self._client.position(partition)) for partition, end in self._ends.items()]
        return ", ".join(f"partition {number} at offset {offset}" for number, offset in places)

    def _record(self, record: Any) -> TopicRecord:
        value = record.value or b""
        if self._source.format == "raw":
            value = enveloped(record.value, Around(record.key, dict(record.headers), record.timestamp), self._source)
        return TopicRecord(Position(str(self._topic), record.partition, record.offset), clip(value, self._limits), len(value))


class KafkaPublisher:
    """Writes records with their key; `flush` returns when all in-sync brokers have them."""

    def __init__(self, topic: TopicUri, access: KafkaAccess) -> None:
        """Raises SinkError, PublishTimeout, also when there is no such topic."""
        self._topic, self._access = topic, access
        self._patience_s = access.settings.timeout_ms / 1000
        self._sent: list[Any] = []
        self._client: Any = None
        if missing_topics([topic], access):  # the client would look for it until its patience ends
            raise SinkError(f"{topic}: {NO_TOPIC}")
        self._connect()

    def publish(self, key: str, value: bytes) -> None:
        """Hands a record over; records of one key keep their order. Raises SinkError when the topic cannot be found."""
        if self._client is None:
            self._connect()
        with self._begun_anew_after_errors():
            self._sent.append(self._client.send(self._topic.name, value, key=key.encode() or None))

    def flush(self) -> None:
        """Returns when everything that was published is safe. After an error all of it may be published again (at least once)."""
        sent, self._sent = self._sent, []
        if self._client is None:
            return
        with self._begun_anew_after_errors():
            self._client.flush()
            for one in sent:
                one.get(self._patience_s)

    def close(self) -> None:
        """Lets go of the topic; does not flush."""
        client, self._client = self._client, None
        if client is not None:
            _force_close(client)

    def _connect(self) -> None:
        from kafka import KafkaProducer

        with kafka_errors(self._topic):
            self._client = KafkaProducer(
                bootstrap_servers=self._topic.servers.split(","),
                acks="all",
                enable_idempotence=True,
                compression_type="gzip",
                linger_ms=5,
                max_request_size=LARGEST_REQUEST_BYTES,
                max_block_ms=self._access.settings.timeout_ms,
                delivery_timeout_ms=self._access.settings.timeout_ms + 1_000,
                allow_auto_create_topics=False,
                **self._access.for_python(),
            )

    @contextmanager
    def _begun_anew_after_errors(self) -> Iterator[None]:
        """What was not confirmed must not be delivered later, in the middle of what is then published again."""
        try:
            with _answering(self._topic, self._access):
                yield
        except SinkError:
            self._sent.clear()
            self.close()
            raise


def _force_close(producer: Any) -> None:
    """The client flushes before it closes and, when that fails, stays open: its thread would go on to deliver what was given up."""
    from kafka.errors import KafkaError

    try:
        producer.close(timeout=0)
    except KafkaError:
        producer._sender.force_close()  # there is no other way to end it
        producer._sender.join(_END_S)
        with suppress(KafkaError):
            producer.close(timeout=1)


def _reason(error: Exception) -> str:
    """The text of a client's error without the number that the client puts before it."""
    return str(error.args[0]) if error.args else str(error)


@contextmanager
def _answering(topic: TopicUri, access: KafkaAccess) -> Iterator[None]:
    """Like `kafka_errors`; where there was no answer, looks whether the topic is gone, because waiting for that would not help."""
    try:
        with kafka_errors(topic):
            yield
    except PublishTimeout as error:
        if missing_topics([topic], access):
            raise SinkError(f"{topic}: {NO_TOPIC}") from error
        raise

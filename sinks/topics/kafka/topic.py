"""Kafka topics for processes without Spark: a consumer that commits, a reader of all records, a
publisher that flushes.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from sinks.topics.files.topic import READ_RECORDS, TopicRecord
from sinks.topics.kafka.codecs import UnreadBatch, bound_batches
from sinks.topics.kafka.errors import NO_TOPIC, kafka_errors
from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES, KafkaAccess
from sinks.topics.topic_admin import missing_topics
from sinks.topics.topic_settings import TopicUri
from sinks.wire.raw_broker_reports import RecordMetadata, SourceSettings, enveloped
from sinks.wire.record_decoding import Position, WireLimits, clip
from strategies.errors import PublishTimeout, SinkError

_POLL_MS = 200
#: Refresh interval of metadata: finds a new partition long before its first records expire.
_LOOK_FOR_PARTITIONS_MS = 30_000


class KafkaTopicConsumer:
    """Reads all partitions from the position of `group`, or from the oldest record if it has none.
    One process at a time per group.
    """

    def __init__(
        self,
        topic: TopicUri,
        group: str | None,
        access: KafkaAccess,
        limits: WireLimits,
        source: SourceSettings = SourceSettings(),
        *,
        follow: bool = False,
        since_ms: int | None = None,
    ) -> None:
        """Raises SinkError, PublishTimeout. `group`: None starts with the oldest record and commits
        nothing.

        `follow`: `read` goes on after the records that exist now. `since_ms`: starts with the first
        record that the broker received then or later (ms since the epoch).
        """
        from kafka import KafkaConsumer

        self._topic, self._access, self._limits, self._source = topic, access, limits, source
        self._timeout_s = access.settings.timeout_ms / 1000
        self._commits, self._follow = group is not None, follow
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
                if since_ms is not None:
                    self._begin_at(since_ms)
        except BaseException:
            self.close()
            raise

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        """See Consumer. Waits longer for records that exist already."""
        if max_bytes is not None:
            return self._up_to(max_bytes, max_records, timeout_s)
        with self._reported():
            records = self._polled(max_records, timeout_s)
            if not records:
                self._take_partitions()
                records = self._behind_the_end(max_records)
        self._hand_out(records)
        return records

    def _up_to(self, max_bytes: int, max_records: int, timeout_s: float) -> Sequence[TopicRecord]:
        """Polls one record at a time from the client's buffer: the client does not report sizes in
        advance.
        """
        found = list(self.poll(1, timeout_s))
        taken = sum(record.size for record in found)
        while found and taken < max_bytes and len(found) < max_records:
            with self._reported():
                more = self._polled(1, 0)
            if not more:
                break
            found += more
            self._hand_out(more)
            taken += more[0].size
        return found

    def _hand_out(self, records: Sequence[TopicRecord]) -> None:
        """Remembers them until they are committed; without a group nothing is."""
        if self._commits:
            self._handed.extend(record.position for record in records)

    def read(self) -> Sequence[TopicRecord]:
        """See Reader. Partition by partition; with `follow` in order of arrival."""
        if self._follow:
            return self.poll(READ_RECORDS, 0.05)
        with self._reported():
            return self._behind_the_end(READ_RECORDS)

    def commit(self, record: TopicRecord) -> None:
        """Commits the position after this record and all polled before it; the broker has it when
        this returns.
        """
        from kafka import OffsetAndMetadata, TopicPartition

        offsets: dict[Any, Any] = {}
        while self._handed:
            position = self._handed.popleft()
            offsets[TopicPartition(self._topic.name, position.partition)] = OffsetAndMetadata(
                position.offset + 1, "", -1
            )
            if position == record.position:
                break
        with self._reported():
            self._client.commit(offsets)

    @property
    def ends(self) -> dict[int, int]:
        """Partition → the offset after its last record, as of the last look at the broker."""
        return {one.partition: offset for one, offset in self._ends.items()}

    def close(self) -> None:
        """Closes the consumer; uncommitted records are delivered again."""
        self._client.close(autocommit=False)

    def _take_partitions(self) -> None:
        """Assigns all partitions of the topic, and asks for their ends; a new one starts at its
        beginning, the others continue.
        """
        from kafka import TopicPartition

        numbers = self._client.partitions_for_topic(self._topic.name)
        if not numbers:
            raise SinkError(f"{self._topic}: {NO_TOPIC}")
        self._partitions = [TopicPartition(self._topic.name, number) for number in sorted(numbers)]
        self._client.assign(self._partitions)
        self._ends = self._client.end_offsets(self._partitions)

    def _begin_at(self, since_ms: int) -> None:
        found = self._client.offsets_for_times(dict.fromkeys(self._partitions, since_ms))
        for partition, end in self._ends.items():
            first = found.get(partition)
            self._client.seek(partition, end if first is None else first.offset)

    def _reported(self) -> AbstractContextManager[None]:
        return _answering(self._topic, self._access)

    def _behind_the_end(self, max_records: int) -> list[TopicRecord]:
        deadline = time.monotonic() + self._timeout_s
        while any(self._client.position(partition) < end for partition, end in self._ends.items()):
            records = self._polled(max_records, _POLL_MS / 1000)
            if records:
                return records
            if time.monotonic() > deadline:
                raise PublishTimeout(
                    f"{self._topic}: existing records are not delivered; check that the broker runs"
                )
        return []

    def _polled(self, max_records: int, timeout_s: float) -> list[TopicRecord]:
        """Polls records. An unusable batch becomes one record without value at its last offset:
        committing it skips the batch.
        """
        from kafka.errors import CorruptRecordError

        try:
            found = self._client.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        except UnreadBatch as batch:
            self._client.seek(batch.partition, batch.last + 1)
            place = Position(str(self._topic), batch.partition.partition, batch.last)
            return [TopicRecord(place, b"", 0, f"A batch of records cannot be read: {batch}.")]
        except CorruptRecordError as error:
            text = str(error.args[0]) if error.args else str(error)  # without its error number
            raise CorruptRecordError(f"{text}, {self._unread()}") from error
        return [self._record(record) for records in found.values() for record in records]

    def _unread(self) -> str:
        """The position where reading continues, to find a batch that cannot be read."""
        return ", ".join(
            f"partition {one.partition} at offset {self._client.position(one)}"
            for one in self._ends
        )

    def _record(self, record: Any) -> TopicRecord:
        value = record.value or b""
        if self._source.format == "raw":
            value = enveloped(
                record.value,
                RecordMetadata(record.key, dict(record.headers), record.timestamp),
                self._source,
            )
        return TopicRecord(
            Position(str(self._topic), record.partition, record.offset),
            clip(value, self._limits),
            len(value),
        )


class KafkaPublisher:
    """Writes records with their key; `flush` returns when all in-sync replicas have them."""

    def __init__(self, topic: TopicUri, access: KafkaAccess) -> None:
        """Raises SinkError, also for a topic that does not exist, and PublishTimeout."""
        self._topic, self._access = topic, access
        self._delivery_ms = access.settings.timeout_ms + 1_000
        self._sent: list[Any] = []
        self._client: Any = None
        if missing_topics([topic], access):  # the client would retry until kafka.timeout_ms is over
            raise SinkError(f"{topic}: {NO_TOPIC}")
        self._connect()

    def publish(self, key: str, value: bytes) -> None:
        """Sends a record; records with the same key keep their order. Raises SinkError if the topic
        does not exist.
        """
        if self._client is None:
            self._connect()
        with self._replaced_after_errors():
            self._sent.append(self._client.send(self._topic.name, value, key=key.encode() or None))

    def flush(self) -> None:
        """Returns when all published records are stored. After an error, publish all of them again
        (at least once). An error comes within about twice kafka.timeout_ms.
        """
        sent, self._sent = self._sent, []
        if self._client is None:
            return
        with self._replaced_after_errors():
            # kafka-python 3.0 drops its producer id when a batch that was sent expires, and never
            # asks for another: batches that were not sent yet are neither sent nor expire.
            self._client.flush(self._delivery_ms / 1000)
            for one in sent:
                one.get(self._access.settings.timeout_ms / 1000)

    def close(self) -> None:
        """Closes the publisher without flushing."""
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
                delivery_timeout_ms=self._delivery_ms,
                allow_auto_create_topics=False,
                **self._access.for_python(),
            )

    @contextmanager
    def _replaced_after_errors(self) -> Iterator[None]:
        """Replaces the producer after an error: it must not deliver unconfirmed records later,
        between those published again.
        """
        try:
            with _answering(self._topic, self._access):
                yield
        except SinkError:
            self._sent.clear()
            self.close()
            raise


def _force_close(producer: Any) -> None:
    """Closes a producer without flushing: close() flushes first and stays open if that fails, and
    its thread would go on delivering.
    """
    from kafka.errors import KafkaError

    try:
        producer.close(timeout=0)
    except KafkaError:
        producer._sender.force_close()  # the only way to stop its thread
        producer._sender.join(5.0)
        with suppress(KafkaError):
            producer.close(timeout=1)


@contextmanager
def _answering(topic: TopicUri, access: KafkaAccess) -> Iterator[None]:
    """Like `kafka_errors`; after a timeout it checks whether the topic exists, because waiting does
    not help if it does not.
    """
    try:
        with kafka_errors(topic):
            yield
    except PublishTimeout as error:
        if missing_topics([topic], access):
            raise SinkError(f"{topic}: {NO_TOPIC}") from error
        raise

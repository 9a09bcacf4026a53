"""Pulsar topics for processes without Spark: a consumer that acknowledges, a reader of all
messages, a publisher that flushes.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.files.topic import READ_RECORDS, TopicRecord
from sinks.topics.pulsar.client import quietly
from sinks.topics.pulsar.partition import (
    QUEUE,
    MessageId,
    PartitionReader,
    PulsarLink,
    id_of,
    record_of,
)
from sinks.topics.topic_settings import TopicUri
from sinks.wire.record_decoding import Position, WireLimits
from strategies.errors import PublishRejected, PublishTimeout, SinkError

if TYPE_CHECKING:
    import pulsar

_LOOK_EVERY_S = 0.02
#: Initial wait of a new consumer: only the broker knows the position of its subscription.
_FIRST_S = 2.0
_LONGEST_PAUSE_S = 2.0


class PulsarTopicConsumer:
    """Reads all partitions from the position of `group` (the subscription), or from the oldest
    message if it is new.

    The subscription is exclusive: the broker refuses a second process of the group, so two
    processes never carry out the same command.
    """

    def __init__(
        self,
        topic: TopicUri,
        group: str,
        settings: PulsarSettings,
        limits: WireLimits,
        ahead: int = QUEUE,
    ) -> None:
        """Waits for a subscription that is still in use, for example by a process that has just
        died. Raises SettingsError, SinkError.

        `ahead`: number of messages that the broker sends before they are polled.
        """
        self._link = PulsarLink(topic, settings, limits)
        self._handed: deque[tuple[Position, int, Any]] = deque()
        self._newest: dict[int, MessageId] = {}
        self._first_poll = True
        self._bytes_left: int | None = None
        self._consumers: list[pulsar.Consumer] = []
        try:
            for name in self._link.partitions():
                self._consumers.append(_subscribed(self._link, name, group, ahead))
        except BaseException:
            self.close()
            raise

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        """See Consumer. Waits longer for messages that are known to exist."""
        self._bytes_left = max_bytes
        with self._link.errors():
            records = self._polled(
                max_records, max(timeout_s, _FIRST_S) if self._first_poll else timeout_s
            )
            deadline = time.monotonic() + self._link.timeout_s
            while not records and self._is_behind():
                if time.monotonic() > deadline:
                    raise PublishTimeout(
                        f"{self._link.topic}: Pulsar does not deliver existing messages; "
                        "check that its brokers and bookies run"
                    )
                records = self._polled(max_records, _LOOK_EVERY_S)
        self._first_poll = False
        return records

    def commit(self, record: TopicRecord) -> None:
        """Acknowledges this record and all polled before it.

        The client sends the acknowledgement within a tenth of a second. The broker does not keep
        acknowledgements of parts of a batch.
        """
        done: dict[int, Any] = {}
        while self._handed:
            position, number, message_id = self._handed.popleft()
            done[number] = message_id
            if position == record.position:
                break
        with self._link.errors():
            for number, message_id in done.items():
                self._consumers[number].acknowledge_cumulative(message_id)

    def close(self) -> None:
        """Closes the consumer; unacknowledged messages are delivered again."""
        for consumer in self._consumers:
            quietly(consumer.close)
        self._link.close()

    def _polled(self, max_records: int, timeout_s: float) -> list[TopicRecord]:
        deadline = time.monotonic() + timeout_s
        records: list[TopicRecord] = []
        wait_s = _LOOK_EVERY_S if len(self._consumers) > 1 else min(timeout_s, 0.2)
        while True:
            for number in range(len(self._consumers)):
                records += self._of(number, max_records - len(records), 0 if records else wait_s)
            if records or time.monotonic() >= deadline:
                return records

    def _of(self, number: int, most: int, wait_s: float) -> list[TopicRecord]:
        import pulsar

        found: list[TopicRecord] = []
        while len(found) < most and (self._bytes_left is None or self._bytes_left > 0):
            try:
                message = self._consumers[number].receive(
                    1 if found else max(1, int(wait_s * 1000))
                )
            except pulsar.Timeout:
                break
            id_ = id_of(message.message_id())
            # After a lost connection the broker delivers unacknowledged messages again.
            if id_ <= self._newest.get(number, id_) and number in self._newest:
                continue
            self._newest[number] = id_
            record = record_of(message, self._link.topic, number, self._link.limits)
            self._bytes_left = None if self._bytes_left is None else self._bytes_left - record.size
            self._handed.append((record.position, number, message.message_id()))
            found.append(record)
        return found

    def _is_behind(self) -> bool:
        return any(
            id_of(self._consumers[number].get_last_message_id()) > id_
            for number, id_ in self._newest.items()
        )


class PulsarReader:
    """The Reader of a Pulsar topic: without `follow` partition by partition, with `follow` in order
    of arrival, new partitions included.
    """

    def __init__(
        self,
        topic: TopicUri,
        settings: PulsarSettings,
        limits: WireLimits,
        follow: bool,
        *,
        since_ms: int | None = None,
    ) -> None:
        """`since_ms`: starts with the first message published then (ms since the epoch) or later.

        Raises SettingsError, SinkError, PublishTimeout.
        """
        self._link = PulsarLink(topic, settings, limits)
        self._follow = follow
        try:
            names = self._link.partitions()
            self._ends = [None if follow else self._link.last(name) for name in names]
            self._readers = [
                PartitionReader(self._link, number, name, None) for number, name in enumerate(names)
            ]
            for reader in self._readers if since_ms is not None else ():
                reader.seek(since_ms or 0)
        except BaseException:
            self._link.close()
            raise

    def read(self) -> Sequence[TopicRecord]:
        """See Reader."""
        found: list[TopicRecord] = []
        for reader, end in zip(self._readers, self._ends, strict=True):
            if self._follow:
                while (
                    len(found) < READ_RECORDS
                    and (one := reader.read(0.001 if found else _LOOK_EVERY_S)) is not None
                ):
                    found.append(one.record)
            elif end is not None:
                for one in reader.read_until(end):
                    found.append(one.record)
                    if len(found) == READ_RECORDS:
                        return found
        return found

    def close(self) -> None:
        """See Reader."""
        for reader in self._readers:
            reader.close()
        self._link.close()


class PulsarPublisher:
    """Writes records with their key; `flush` returns when the bookies have all of them."""

    def __init__(self, topic: TopicUri, settings: PulsarSettings) -> None:
        """Raises SettingsError, SinkError, PublishTimeout."""
        import pulsar

        self._link = PulsarLink(topic, settings)
        self._confirmations = threading.Condition()
        self._open = 0
        self._failed: list[pulsar.Result] = []
        try:
            with self._link.errors():
                self._producer = self._link.client.create_producer(
                    self._link.name,
                    send_timeout_millis=settings.deadline_ms,
                    compression_type=pulsar.CompressionType.ZSTD,
                    max_pending_messages=1_000,
                    block_if_queue_full=True,
                    batching_enabled=True,
                    batching_max_publish_delay_ms=5,
                )
        except BaseException:
            self._link.close()
            raise

    def publish(self, key: str, value: bytes) -> None:
        """Sends a record; blocks while too many are pending. Records with the same key keep their
        order.
        """
        with self._confirmations:
            self._open += 1
        with self._link.errors():
            try:
                self._producer.send_async(value, self._confirmed, partition_key=key or None)
            except BaseException:
                with self._confirmations:
                    self._open -= 1
                raise

    def flush(self) -> None:
        """Returns when all published records are stored. After an error, publish all of them again
        (at least once).
        """
        quietly(self._producer.flush)  # the result of each record says more
        with self._confirmations:
            in_time = self._confirmations.wait_for(
                lambda: self._open == 0, self._link.timeout_s + 1
            )
            failed, self._failed = self._failed, []
            self._open = 0 if in_time else self._open
        if failed:
            raise _refused(self._link.topic, failed[0])
        if not in_time:
            raise PublishTimeout(
                f"{self._link.topic}: Pulsar does not answer; check that its brokers and "
                "bookies run"
            )

    def close(self) -> None:
        """Closes the publisher without flushing."""
        self._link.close()

    def _confirmed(self, result: "pulsar.Result", _: object) -> None:
        import pulsar

        with self._confirmations:
            self._open -= 1
            if result != pulsar.Result.Ok:
                self._failed.append(result)
            self._confirmations.notify_all()


def _subscribed(link: PulsarLink, partition: str, group: str, ahead: int) -> "pulsar.Consumer":
    import pulsar

    deadline, pause_s = time.monotonic() + link.timeout_s, 0.1
    while True:
        try:
            with link.errors():
                return link.client.subscribe(
                    partition,
                    group,
                    consumer_type=pulsar.ConsumerType.Exclusive,
                    initial_position=pulsar.InitialPosition.Earliest,
                    receiver_queue_size=ahead,
                )
        except SinkError as error:
            if "ConsumerBusy" not in str(error) or time.monotonic() + pause_s > deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)


def _refused(topic: TopicUri, result: "pulsar.Result") -> SinkError:
    name = str(result).rpartition(".")[2]
    if name == "MessageTooBig":
        return PublishRejected(
            f"{topic}: a record is larger than the broker allows; raise its maxMessageSize "
            f"(the client says {name})."
        )
    return PublishTimeout(
        f"{topic}: Pulsar does not answer; check that its brokers and bookies run, and the "
        f"topic (the client says {name})."
    )

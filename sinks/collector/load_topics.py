"""Reads the two topics on which brokers with the extensible load manager publish their load.

The topics are not persistent: a late subscriber has missed earlier messages. Key = broker, value =
JSON; an empty value withdraws the previous message (Pulsar 4.2.4, `TableViewLoadDataStoreImpl`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from sinks.collector.broker_poll import Kind, Report
from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.pulsar.client import open_client, pulsar_errors
from sinks.wire.names import is_broker
from strategies.errors import SinkError

if TYPE_CHECKING:
    import pulsar

WITHDRAWN = b"null"
TOPICS: Mapping[Kind, str] = {
    "broker-load-data": "non-persistent://pulsar/system/loadbalancer-broker-load-data",
    "top-bundles-load-data": "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data",
}
_QUEUE_WAIT_MS = 500
#: The broker drops messages beyond this queue: room for 1,000 brokers that report twice within a
#: second.
_QUEUE = 10_000


class LoadTopics:
    """Buffers reports, stamped with the collector's clock on arrival, until `take`."""

    def __init__(
        self, service_url: str, settings: PulsarSettings, clock_ms: Callable[[], int]
    ) -> None:
        """Subscribes at the present end. Raises SettingsError, SinkError."""
        import pulsar

        self._where = (f"the load topics of {settings.cluster}", service_url, settings)
        self._clock_ms = clock_ms
        self._arrived = deque[Report]()
        self._failed: SinkError | None = None
        self._ended = threading.Event()
        self._client = open_client(service_url, settings)
        try:
            with pulsar_errors(*self._where):
                readers = {
                    kind: self._client.create_reader(
                        topic,
                        pulsar.MessageId.latest,
                        receiver_queue_size=_QUEUE,
                        reader_name="pulsar-rebalancer",
                    )
                    for kind, topic in TOPICS.items()
                }
        except BaseException:
            self._client.close()
            raise
        self._threads = [
            threading.Thread(
                target=self._follow, args=(kind, reader), name=f"follow-{kind}", daemon=True
            )
            for kind, reader in readers.items()
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> list[Report]:
        """The reports since the last call, in order of arrival. Raises SinkError if the topics
        cannot be read any more.
        """
        found = []
        while self._arrived:
            found.append(self._arrived.popleft())
        if self._failed is not None and not found:
            raise self._failed
        return sorted(found, key=lambda report: report.ts)

    def close(self) -> None:
        """Closes the readers."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _follow(self, kind: Kind, reader: pulsar.Reader) -> None:
        import pulsar

        try:
            with pulsar_errors(*self._where):
                while not self._ended.is_set():
                    with suppress(pulsar.Timeout):
                        self._put(kind, reader.read_next(timeout_millis=_QUEUE_WAIT_MS))
        except SinkError as error:
            self._failed = error

    def _put(self, kind: Kind, message: pulsar.Message) -> None:
        broker, ts = message.partition_key(), self._clock_ms()
        if is_broker(broker):
            self._arrived.append(Report(broker, ts, one_line(message.data()), kind))


def one_line(data: bytes) -> bytes:
    """A payload as one line of JSON, `null` if empty. Bytes that are not JSON become a string,
    which the job rejects.
    """
    if not data.strip():
        return WITHDRAWN
    try:
        return msgspec.json.format(data, indent=-1)
    except (ValueError, RecursionError):
        return msgspec.json.encode(data.decode("utf-8", errors="replace"))

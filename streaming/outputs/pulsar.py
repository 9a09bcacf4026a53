"""Output topics on Pulsar: commands are published before the rounds that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.pulsar.topic import PulsarPublisher
from sinks.topics.uri import TopicUri
from streaming.outputs.output_counts import KINDS


class PulsarTopics:
    """Producers that live as long as the query: connecting per micro-batch costs more than
    publishing.
    """

    def __init__(self, topics: Mapping[str, TopicUri], settings: PulsarSettings) -> None:
        """`topics`: by kind. Raises SettingsError, SinkError, PublishTimeout."""
        with ExitStack() as stack:
            self._publishers: dict[str, PulsarPublisher] = {}
            for kind, topic in topics.items():
                self._publishers[kind] = PulsarPublisher(topic, settings)
                stack.callback(self._publishers[kind].close)
            self._opened = stack.pop_all()

    def append(self, rows: Sequence[Any]) -> None:
        """Returns when the bookies have all rows. Raises SinkError, PublishTimeout,
        PublishRejected.
        """
        ordered = sorted(rows, key=lambda row: (row.key, row.seq))
        for kind in KINDS:
            publisher = self._publishers[kind]
            for row in ordered:
                if row.kind == kind:
                    publisher.publish(row.key, bytes(row.value))
            publisher.flush()

    def close(self) -> None:
        """See Appender."""
        self._opened.close()

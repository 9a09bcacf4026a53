"""Probes whether brokers serve Pulsar topics: asks the broker of each partition for the id of the
newest message.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.uri import TopicUri
from strategies.errors import PublishTimeout, RebalancerError

if TYPE_CHECKING:
    import pulsar


#: Number of probes over the same connections.
_QUESTIONS = 20


class PulsarProbe:
    """Keeps its connections between answered probes: a probe then costs one small request per
    partition.

    After an unanswered probe the next one uses a new connection and a new look-up: another broker
    may serve the topic by then, and the client keeps a connection to a hanging broker for up to a
    minute. The same happens every 20th probe: after a short loss of connection the client may
    answer from its cache, and partitions may have been added.
    """

    def __init__(self, topics: Collection[TopicUri], settings: PulsarSettings) -> None:
        """Connects on the first probe. `settings.deadline_ms`: timeout of each request."""
        self._topics, self._settings = topics, settings
        self._open = ExitStack()
        self._readers: list[tuple[PulsarLink, pulsar.Reader]] = []
        self._questions_left = 0

    def __call__(self) -> None:
        """Raises SinkError, PublishTimeout if no broker answers for one of the topics,
        SettingsError.
        """
        try:
            if self._questions_left == 0:
                self._connect()
            self._questions_left -= 1
            for link, reader in self._readers:
                with link.errors():
                    reader.has_message_available()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connections; the next probe opens new ones."""
        self._readers, self._questions_left = [], 0
        self._open.close()

    def _connect(self) -> None:
        self.close()
        for topic in self._topics:
            link = PulsarLink(topic, self._settings)
            self._open.callback(link.drop)
            self._readers += [(link, reader) for reader in _readers(link)]
        self._questions_left = _QUESTIONS


def _readers(link: PulsarLink) -> list[pulsar.Reader]:
    """A reader at the end of each partition; none if the token may not read."""
    try:
        return [link.at_end(partition) for partition in link.partitions()]
    except PublishTimeout:
        raise
    except RebalancerError:
        return []

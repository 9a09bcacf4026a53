"""Whether brokers serve Pulsar topics at this moment: each partition's broker is asked which message is its newest."""

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


#: As many use the same connections.
_QUESTIONS = 20


class PulsarQuestion:
    """Connected between two questions while there are answers: a broker that answers costs one small request per partition.

    After a question without an answer the next one begins with a look-up, over a new connection: another broker may serve the topic by
    then, and the client holds on to a broker that stands still for up to a minute. So does every 20th question: a client that has lost its
    connection for a moment may answer by itself, and there may be more partitions.
    """

    def __init__(self, topics: Collection[TopicUri], settings: PulsarSettings) -> None:
        """Connects at the first question. `settings.deadline_ms` is for each of the requests."""
        self._topics, self._settings = topics, settings
        self._open = ExitStack()
        self._readers: list[tuple[PulsarLink, pulsar.Reader]] = []
        self._questions_left = 0

    def __call__(self) -> None:
        """Raises SinkError, PublishTimeout when no broker answers for one of the topics, SettingsError."""
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
        """Closes the connections; the next question begins with new ones."""
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
    """At the end of each partition; none where we may not read."""
    try:
        return [link.at_end(partition) for partition in link.partitions()]
    except PublishTimeout:
        raise
    except RebalancerError:
        return []

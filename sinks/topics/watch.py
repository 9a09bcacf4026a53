"""Probes the servers of topics every few seconds, in a thread beside the work.

During an outage clients retry silently: Spark's Kafka source for minutes, kafka-python for
`kafka.timeout_ms`, Pulsar's client for `pulsar.deadline_ms` when it writes and without limit when
it reads. So a separate thread with its own connections notices and reports the outage.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sinks.pulsar_api.settings import PulsarSettings
from sinks.repeating import repeated
from sinks.topics.connections import TopicAccess
from sinks.topics.kafka.admin import missing_topics
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.retry_backoff import RetryBackoff
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
            # Without requests to the brokers, which may not answer.
            self._open.callback(link.client.shutdown)
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


#: Raises SinkError, PublishTimeout if servers do not answer.
_Probe = Callable[[], object]
#: Timeout of a probe, which is a small request.
_ANSWERS_MS = 5_000
#: Timeout for connecting to a Pulsar broker, short enough to try the next broker of the topic's
#: URI.
_CONNECTS_MS = 1_500


@contextmanager
def watched(
    topics: Collection[TopicUri],
    access: TopicAccess,
    outage: RetryBackoff,
    every_s: float = 3.0,
) -> Iterator[None]:
    """Probes the servers of these topics while the context lasts and reports to `outage`. Raises
    SettingsError.

    `every_s`: pause before each probe.
    """
    opened = ExitStack()
    probes = _probes(topics, access, opened)
    if not probes:
        yield
        return
    work = partial(_report, probes, outage)
    with repeated(work, every_s, "watch-topics", used=opened):
        yield


def _probes(topics: Collection[TopicUri], access: TopicAccess, opened: ExitStack) -> list[_Probe]:
    """One probe per kind of server; `opened` closes them."""
    on_kafka, on_pulsar = (
        [topic for topic in topics if topic.scheme == scheme] for scheme in ("kafka", "pulsar")
    )
    found: list[_Probe] = []
    if on_kafka:
        short = replace(access.kafka, timeout_ms=min(access.kafka.timeout_ms, _ANSWERS_MS))
        # Over a new connection each time.
        found.append(partial(missing_topics, on_kafka, kafka_access(short)))
    if on_pulsar:
        limits = {"deadline_ms": _ANSWERS_MS, "connect_timeout_ms": _CONNECTS_MS}
        shortened = {name: min(getattr(access.pulsar, name), most) for name, most in limits.items()}
        probe = PulsarProbe(on_pulsar, replace(access.pulsar, **shortened))
        opened.callback(probe.close)
        found.append(probe)
    return found


def _report(probes: Sequence[_Probe], outage: RetryBackoff, ended: threading.Event) -> None:
    error = next(filter(None, map(_answer, probes)), None)
    if not ended.is_set():
        outage.probed(error)


def _answer(ask: _Probe) -> RebalancerError | None:
    """The error of a probe without answer. A deleted topic or a refused login is no outage; it ends
    the work itself.
    """
    try:
        ask()
    except PublishTimeout as error:
        return error
    except RebalancerError:
        return None
    return None

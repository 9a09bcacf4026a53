"""Asks the servers of topics every few seconds whether they answer, beside the work.

Clients wait for a server that is away, and for as long as they wait they say nothing: Spark's Kafka source for minutes, kafka-python for
`kafka.timeout_ms`, Pulsar's client for `pulsar.deadline_ms` when it writes and for ever when it reads. So a thread of its own asks, with
connections of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from sinks.topics.access import TopicAccess
from sinks.topics.kafka.admin import missing_topics
from sinks.topics.kafka.settings import KafkaAccess, kafka_access
from sinks.topics.pulsar.question import PulsarQuestion
from sinks.topics.retry_backoff import RetryBackoff
from sinks.topics.uri import TopicUri
from strategies.errors import PublishTimeout, RebalancerError

_EVERY_S = 3.0
#: How long a server may take to answer the question: it is a small one.
_ANSWERS_MS = 5_000
#: How long a Pulsar broker may take to accept a connection: of several in a topic's URI, the next one is to have its turn.
_CONNECTS_MS = 1_500
#: How long the end of the work waits for a question under way.
_END_S = 1.0


@contextmanager
def watched(topics: Collection[TopicUri], access: TopicAccess, outage: RetryBackoff) -> Iterator[None]:
    """While this lasts, `outage` hears every few seconds whether the servers of these topics answer. Raises SettingsError."""
    questions = _questions(topics, access)
    if not questions:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(questions, outage, ended), name="watch-topics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_S)


class _Question(Protocol):
    """Raises SinkError, PublishTimeout where servers do not answer."""

    def __call__(self) -> None: ...
    def close(self) -> None: ...


class _KafkaQuestion:
    """Whether servers give the metadata of topics; each time over a connection of its own."""

    def __init__(self, topics: Collection[TopicUri], access: KafkaAccess) -> None:
        self._topics, self._access = topics, access

    def __call__(self) -> None:
        missing_topics(self._topics, self._access)

    def close(self) -> None:
        """Nothing is open between two questions."""


def _questions(topics: Collection[TopicUri], access: TopicAccess) -> list[_Question]:
    on_kafka, on_pulsar = ([topic for topic in topics if topic.scheme == scheme] for scheme in ("kafka", "pulsar"))
    found: list[_Question] = []
    if on_kafka:
        found.append(_KafkaQuestion(on_kafka, kafka_access(replace(access.kafka, timeout_ms=min(access.kafka.timeout_ms, _ANSWERS_MS)))))
    if on_pulsar:
        patience = {"deadline_ms": _ANSWERS_MS, "connect_timeout_ms": _CONNECTS_MS}
        shortened = {name: min(getattr(access.pulsar, name), most) for name, most in patience.items()}
        found.append(PulsarQuestion(on_pulsar, replace(access.pulsar, **shortened)))
    return found


def _watch(questions: Sequence[_Question], outage: RetryBackoff, ended: threading.Event) -> None:
    try:
        while not ended.wait(_EVERY_S):
            error = next(filter(None, map(_answer, questions)), None)
            if not ended.is_set():
                outage.asked(error)
    finally:
        for question in questions:
            question.close()


def _answer(ask: Callable[[], None]) -> RebalancerError | None:
    """Only silence is an outage; a topic that is gone or a login that is refused ends the work itself."""
    try:
        ask()
    except PublishTimeout as error:
        return error
    except RebalancerError:
        return None
    return None

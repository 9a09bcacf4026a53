"""Asks the servers of topics every few seconds whether they answer, beside the work.

Clients wait for a server that is away, and for as long as they wait they say nothing: Spark's Kafka source for minutes, kafka-python for
`kafka.timeout_ms`. So a thread of its own asks, with connections of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sinks.kafka_admin import missing_topics
from sinks.kafka_settings import kafka_access
from sinks.outage import Outage
from sinks.topic_uri import parse_topic
from sinks.topics import TopicAccess
from strategies.errors import PublishTimeout, RebalancerError

_EVERY_S = 3.0
#: How long a server may take to answer the question: it is a small one.
_ANSWERS_MS = 5_000
#: How long the end of the work waits for a question under way.
_END_S = 1.0


@contextmanager
def watched(uris: Iterable[str], access: TopicAccess, outage: Outage) -> Iterator[None]:
    """While this lasts, `outage` hears every few seconds whether the Kafka servers of these topics answer. Raises SettingsError."""
    ask = _asking(uris, access)
    if ask is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(ask, outage, ended), name="watch-topics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_S)


def _asking(uris: Iterable[str], access: TopicAccess) -> Callable[[], object] | None:
    """Raises SinkError when servers do not answer; None where no topic is on Kafka."""
    topics = [topic for topic in map(parse_topic, uris) if topic.scheme == "kafka"]
    quick = kafka_access(replace(access.kafka, timeout_ms=min(access.kafka.timeout_ms, _ANSWERS_MS)))
    return (lambda: missing_topics(topics, quick)) if topics else None


def _watch(ask: Callable[[], object], outage: Outage, ended: threading.Event) -> None:
    while not ended.wait(_EVERY_S):
        error = _answer(ask)
        if not ended.is_set():
            outage.asked(error)


def _answer(ask: Callable[[], object]) -> RebalancerError | None:
    """Only silence is an outage; a topic that is gone or a login that is refused ends the work itself."""
    try:
        ask()
    except PublishTimeout as error:
        return error
    except RebalancerError:
        return None
    return None

"""A thread beside the work asks the servers of topics whether they answer, and only where topics
are on servers.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from sinks.pulsar_api.access import PulsarSettings
from sinks.topics.addresses import TopicAccess, file_topic
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.outages import RetryBackoff, watched
from tests.topic_uris import topic_of
from tools.waiting import eventually


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("kafka://{}/t", "no answer; check that the broker runs"),
        ("pulsar://{}/t/ns/t", "timeout; check that the brokers run"),
        # Of several servers one does not run, which does not hide the silence of the other.
        ("pulsar://127.0.0.1:1,{}/t/ns/t", "timeout; check that the brokers run"),
    ],
)
def test_a_server_that_accepts_connections_and_answers_nothing_is_away(
    shape: str, sentence: str
) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = shape.format(f"127.0.0.1:{silent.getsockname()[1]}")
        access = TopicAccess(
            KafkaSettings(timeout_ms=200), PulsarSettings(deadline_ms=1_000, connect_timeout_ms=200)
        )
        with watched(
            [topic_of(uri)], access, RetryBackoff(60, lambda _: True, said.append), every_s=0.01
        ):
            eventually(lambda: bool(said), 180, "nothing is said about the outage")
    assert said[0].startswith(f"{uri}: {sentence}")
    assert said[0].endswith("; trying again for up to 60 s")


def test_folders_are_not_watched(tmp_path: Path) -> None:
    before = threading.active_count()
    with watched([file_topic(tmp_path)], TopicAccess(), RetryBackoff(60, lambda _: True, print)):
        assert threading.active_count() == before

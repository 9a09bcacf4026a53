"""A thread beside the work asks Kafka's servers whether they answer, and only where topics are on Kafka."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from sinks.kafka_settings import KafkaSettings
from sinks.outage import Outage
from sinks.topic_uri import file_topic_uri
from sinks.topics import TopicAccess
from sinks.watch import watched
from tests.waiting import eventually


def test_a_server_that_accepts_connections_and_answers_nothing_is_away(tmp_path: Path) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"kafka://127.0.0.1:{silent.getsockname()[1]}/t"
        access = TopicAccess(KafkaSettings(timeout_ms=1_000))
        with watched([uri], access, Outage(60, lambda _: True, said.append)):
            eventually(lambda: bool(said), 180, "nothing is said about the outage")
    assert said[0].startswith(f"{uri}: no answer; check that the broker runs")
    assert said[0].endswith("; trying again for up to 60 s")


def test_folders_are_not_watched(tmp_path: Path) -> None:
    before = threading.active_count()
    with watched([file_topic_uri(tmp_path)], TopicAccess(), Outage(60, lambda _: True, print)):
        assert threading.active_count() == before

"""The executor with its topics on a real Kafka broker: killed between applying and committing, it
applies nothing twice, loses nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.control_topic import TOPICS, Control
from tools.kills.kill_execute import plan, run
from tools.servers.kafka_broker import KafkaBroker

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="reads command lines in /proc"),
]


def test_three_kills_apply_nothing_twice_and_lose_nothing(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    control = Control(
        tmp_path, {name: kafka.topic(f"execute-{name}", partitions=2) for name in TOPICS}
    )

    result = run(tmp_path, plan(3, seed=3), control=control)

    assert result.faults == []
    assert result.statuses == {"applied": 9}

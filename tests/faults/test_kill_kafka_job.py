"""The job and the broker killed while a recording is on its way through Kafka: consumers that count
ids once see the undisturbed run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.kills.kill_kafka_job import run
from tools.processes.real_job import recording
from tools.servers.kafka_broker import kafka_broker

pytestmark = [
    pytest.mark.faults,
    pytest.mark.servers,
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


@pytest.mark.slow
def test_many_kills_lose_and_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with kafka_broker(tmp_path / "broker") as broker:
        found = run(broker, tmp_path / "job", recording("modular-broker-killed"), kills=50, seed=7)
    assert found.faults == []
    assert min(one.records for one in found.comparisons) > 5

"""The job and the broker killed while a recording is on its way through Kafka: consumers that count
ids once see the undisturbed run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults.kill_kafka_job import run
from tests.faults.real_job import recording
from tests.servers.kafka_broker import kafka_broker

pytestmark = [
    pytest.mark.faults,
    pytest.mark.servers,
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


def killed(folder: Path, kills: int) -> None:
    (folder / "broker").mkdir()
    with kafka_broker(folder / "broker") as broker:
        found = run(broker, folder / "job", recording("modular-broker-killed"), kills=kills, seed=7)
    assert found.faults == []
    assert min(one.records for one in found.comparisons) > 5


def test_kills_of_job_and_broker_lose_and_change_nothing(tmp_path: Path) -> None:
    """Two kills in a micro-batch, one of them beside a restart of the broker, and one while Spark
    starts.
    """
    killed(tmp_path, kills=3)


@pytest.mark.slow
def test_many_kills_lose_and_change_nothing(tmp_path: Path) -> None:
    killed(tmp_path, kills=50)

"""The job killed while a recording is on its way through Pulsar: consumers that count ids once see
the undisturbed run.
"""

import sys
from pathlib import Path

import pytest

from tools.kills.kill_pulsar_job import run
from tools.processes.real_job import recording
from tools.servers.pulsar_cluster import PulsarCluster

pytestmark = [
    pytest.mark.faults,
    pytest.mark.servers,
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "kills"), [(0, 2), (4, 2), (0, 10)])
def test_kills_of_the_job_lose_and_change_nothing(
    pulsar: PulsarCluster, tmp_path: Path, partitions: int, kills: int
) -> None:
    lines = recording("modular-broker-killed")
    found = run(pulsar, tmp_path, lines, kills=kills, seed=kills, partitions=partitions)
    assert [fault for one in found for fault in one.faults] == []
    assert min(one.records for one in found) > 5

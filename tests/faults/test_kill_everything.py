"""A whole installation under kills: job, Python workers, executor, collector and Kafka broker. Who
counts ids once sees the undisturbed run, and every command has one verdict.
"""

import sys
from pathlib import Path

import pytest

from tools.kills.installation import VICTIMS
from tools.kills.kill_everything import plan, run

pytestmark = [
    pytest.mark.faults,
    pytest.mark.servers,
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc"),
]


@pytest.mark.parametrize(("kills", "seed"), [(5, 3), pytest.param(200, 7, marks=pytest.mark.slow)])
def test_kills_of_each_process_lose_and_change_nothing(
    tmp_path: Path, kills: int, seed: int
) -> None:
    found = run(tmp_path, plan(kills, seed), seed)
    assert found.faults == []
    assert found.kills == dict.fromkeys(VICTIMS, kills // len(VICTIMS))
    assert min(one.records for one in found.comparisons) > 0
    assert sum(found.statuses.values()) > 0

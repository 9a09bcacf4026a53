"""The job killed in the middle of its work, with topics in folders: what it publishes, without
repetitions, is what it would have published undisturbed.
"""

import sys
from pathlib import Path

import pytest

from tools.kills.kill_job import plan, run
from tools.processes.real_job import recording

pytestmark = [
    pytest.mark.faults,
    pytest.mark.servers,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


def test_three_kills_lose_and_change_nothing(tmp_path: Path) -> None:
    """What a kill hits is luck: other moments are tried when none of the three has hit a
    micro-batch.
    """
    for seed in (7, 8, 9):
        result = run(tmp_path / str(seed), recording("modular-broker-killed"), plan(3, seed=seed))
        assert result.faults == []
        records = {comparison.topic: comparison.records for comparison in result.comparisons}
        assert min(records["commands"], records["rounds"]) > 5
        assert records["rejected"] == 3, "the torn line of each publisher that was killed with it"
        if any(death.in_batch and death.processes >= 2 for death in result.deaths):
            return
    raise AssertionError("none of nine kills has hit driver and Java in a micro-batch")

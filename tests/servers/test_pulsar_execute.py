"""The executor with its topics on a real Pulsar: killed between applying and committing, it applies
nothing twice, loses nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.control_topic import TOPICS, Control
from tools.kills.kill_execute import plan, run
from tools.servers.pulsar_cluster import PulsarCluster

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="reads command lines in /proc"),
]


@pytest.mark.parametrize("partitions", [0, 2])
def test_three_kills_apply_nothing_twice_and_lose_nothing(
    pulsar: PulsarCluster, tmp_path: Path, partitions: int
) -> None:
    control = Control(
        tmp_path,
        {name: pulsar.topic(f"execute/kill-{partitions}/{name}", partitions) for name in TOPICS},
    )

    result = run(tmp_path, plan(3, seed=4 + partitions), control=control)

    assert result.faults == []
    assert result.statuses == {"applied": 9}

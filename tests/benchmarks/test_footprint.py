"""The benchmark of the job's footprint: a tiny run finds the processes that a job has, and no
others; no look at the figures.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import DRIVER
from tools.processes.real_job import environment_of_a_short_run
from tools.servers.kafka_broker import KAFKA

pytestmark = pytest.mark.lab


@pytest.mark.servers
@pytest.mark.spark
def test_a_job_on_kafka_is_four_processes_with_one_python_worker(tmp_path: Path) -> None:
    assert KAFKA.jars  # skipped without them
    sizes = ["--brokers", "5", "--bundles", "5", "--warm-up", "3", "--passes", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.footprint", *sizes, "--interval", "2", "--json"],
        env=environment_of_a_short_run() | {"TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert Counter(one["role"] for one in found["processes"]) == Counter(
        [DRIVER, "Java", "Python workers' daemon", "Python worker"]
    )
    assert all(one["pss"] > 0 for one in found["processes"])
    assert [
        entry.name for entry in tmp_path.iterdir() if entry.name.startswith("rebalancer-")
    ] == []

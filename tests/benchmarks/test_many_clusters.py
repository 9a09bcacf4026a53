"""The benchmark of many clusters: what it publishes, and what its figures say; a tiny real run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.servers.kafka_broker import KAFKA

pytestmark = pytest.mark.lab


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.slow
def test_a_tiny_run_prints_a_row_per_run() -> None:
    assert KAFKA.jars  # skipped without them
    words = ["--clusters", "2", "3", "--partitions", "1", "--records", "200", "--brokers", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.many_clusters", *words, "--json"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    runs = json.loads(done.stdout)["runs"]
    assert [(one["clusters"], one["home"]) for one in runs] == [
        (2, "one process"), (2, "two workers"), (3, "one process"), (3, "two workers"),
    ]  # fmt: skip
    assert all(one["ms_per_report"] > 0 and one["state_mib"] > 0 for one in runs)

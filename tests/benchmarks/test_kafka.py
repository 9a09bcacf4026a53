"""The benchmark on Kafka: ratios stand where they belong, and a tiny run measures everything and
leaves nothing; no look at the times.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kafka_tables import DECODING, DROPPING, JOB, PASS_THROUGH
from tools.processes.real_job import environment_of_a_short_run
from tools.servers.kafka_broker import KAFKA

pytestmark = pytest.mark.lab


@pytest.mark.servers
@pytest.mark.spark
def test_a_tiny_run_measures_everything_and_leaves_nothing(tmp_path: Path) -> None:
    assert KAFKA.jars  # skipped without them
    command = [
        sys.executable,
        "-m",
        "benchmarks.kafka",
        "--quick",
        "--modes",
        "burst",
        "--brokers",
        "40",
        "--bundles",
        "20",
        "--seconds",
        "4",
        "--json",
    ]
    environment = environment_of_a_short_run() | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command,
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    queries = {one["query"] for one in figures["batches"]}
    assert {PASS_THROUGH, DECODING, DROPPING, JOB} < queries
    assert len(figures["batches"]) == len(queries)
    assert [one["burst"] for one in figures["latencies"]] == [True]
    assert all(one["rounds"] >= 2 for one in figures["latencies"])
    assert len(figures["rounds"]) == len(figures["memory"]) == len(figures["states"]) == 2
    assert all(one["java_mib"] > 0 and one["workers"] > 0 for one in figures["memory"])
    assert all(one["table_bytes"] > 0 for one in figures["states"])
    assert [
        entry.name for entry in tmp_path.iterdir() if entry.name.startswith("rebalancer-")
    ] == []

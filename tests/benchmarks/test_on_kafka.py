"""Benchmarks with a broker of Kafka: a tiny run of each measures everything and leaves nothing; no
look at the times.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kafka_tables import DECODING, DROPPING, JOB, PASS_THROUGH
from benchmarks.processes import DRIVER
from tools.processes.real_job import environment_of_a_short_run
from tools.servers.kafka_broker import KAFKA

pytestmark = [pytest.mark.lab, pytest.mark.servers, pytest.mark.spark]


def benchmark(name: str, words: str, folder: Path) -> Any:
    """What a benchmark measures, as JSON."""
    assert KAFKA.jars  # skipped without them
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words.split(), "--json"],
        env=environment_of_a_short_run() | {"TMPDIR": str(folder)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [one.name for one in folder.iterdir() if one.name.startswith("rebalancer-")] == []
    return json.loads(done.stdout)


def test_a_job_on_kafka_is_four_processes_with_one_python_worker(tmp_path: Path) -> None:
    words = "--brokers 5 --bundles 5 --warm-up 3 --passes 1 --interval 2"
    processes = benchmark("footprint", words, tmp_path)["processes"]
    assert Counter(one["role"] for one in processes) == Counter(
        [DRIVER, "Java", "Python workers' daemon", "Python worker"]
    )
    assert all(one["pss"] > 0 for one in processes)


def test_a_tiny_run_on_kafka_measures_everything(tmp_path: Path) -> None:
    words = "--quick --modes burst --brokers 40 --bundles 20 --seconds 4"
    figures = benchmark("kafka", words, tmp_path)
    queries = {one["query"] for one in figures["batches"]}
    assert {PASS_THROUGH, DECODING, DROPPING, JOB} < queries
    assert len(figures["batches"]) == len(queries)
    assert [one["burst"] for one in figures["latencies"]] == [True]
    assert all(one["rounds"] >= 2 for one in figures["latencies"])
    assert len(figures["rounds"]) == len(figures["memory"]) == len(figures["states"]) == 2
    assert all(one["java_mib"] > 0 and one["workers"] > 0 for one in figures["memory"])
    assert all(one["table_bytes"] > 0 for one in figures["states"])


@pytest.mark.slow
def test_a_tiny_run_of_many_clusters_prints_a_row_per_run(tmp_path: Path) -> None:
    words = "--clusters 2 3 --partitions 1 --records 200 --brokers 5"
    runs = benchmark("many_clusters", words, tmp_path)["runs"]
    assert [(one["clusters"], one["home"]) for one in runs] == [
        (2, "one process"), (2, "two workers"), (3, "one process"), (3, "two workers"),
    ]  # fmt: skip
    assert all(one["ms_per_report"] > 0 and one["state_mib"] > 0 for one in runs)

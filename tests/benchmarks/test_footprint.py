"""The benchmark of the job's footprint: a tiny run finds the processes that a job has, and no
others; no look at the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.footprint import Footprint, text
from benchmarks.processes import DRIVER, ProcessUse, used_below
from tests.faults.real_job import environment_of_a_short_run
from tests.servers.kafka_broker import KAFKA

pytestmark = pytest.mark.lab

_MIB = 2**20


def test_this_process_has_memory_threads_and_cpu_time() -> None:
    me = next(one for one in used_below(os.getpid()) if one.pid == os.getpid())
    assert me.role == DRIVER
    assert 0 < me.uss <= me.pss <= me.rss
    assert me.threads >= 1
    assert me.cpu_s > 0


def test_the_sum_and_the_shares_of_processes_are_told() -> None:
    used = [
        ProcessUse(DRIVER, 1, 90 * _MIB, 80 * _MIB, 100 * _MIB, 85 * _MIB, 5, 1.0),
        ProcessUse("Java", 2, 510 * _MIB, 500 * _MIB, 520 * _MIB, 490 * _MIB, 70, 9.0),
    ]
    printed = text(Footprint(used, 650.0, 60.0, 0.03, {"Java": 0.025, DRIVER: 0.005}))
    assert "all: 600 MiB, at most 650" in printed
    assert "CPU over 60 s: 3.0% of a core (driver (Python) 0.5%, Java 2.5%)" in printed


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

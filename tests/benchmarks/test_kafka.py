"""The benchmark on Kafka: ratios stand where they belong, and a tiny run measures everything and
leaves nothing; no look at the times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import Sample
from benchmarks.kafka_batches import BatchTimes
from benchmarks.kafka_live import Latency, RoundCost
from benchmarks.kafka_tables import DECODING, DROPPING, JOB, PASS_THROUGH, Figures, tables
from tests.faults.real_job import environment_of_a_short_run
from tests.servers.kafka_broker import KAFKA

pytestmark = pytest.mark.lab


def flat(ms: float) -> Sample:
    return Sample(ms, ms, ms)


def test_ratios_are_those_of_the_same_size_of_batch() -> None:
    batches = [
        BatchTimes(query, records, 9, Sample(ms * factor, ms, ms * 3))
        for records, factor in ((100, 1.5), (1_000, 2.0))
        for query, ms in (
            (PASS_THROUGH, 100.0),
            (DECODING, 200.0),
            (DROPPING, 250.0),
            (JOB, 250.0),
        )
    ]
    printed = tables(Figures(100, [1.0, 2.0], batches))
    rows = [" ".join(line.split()) for line in printed.splitlines()]
    assert "100 job 375 (250–750) 9 267 2.50, 2.50 1.25, 1.25 1.00, 1.00" in rows
    assert "1,000 job 500 (250–750) 9 2,000 2.50, 2.50 1.25, 1.25 1.00, 1.00" in rows
    assert rows[-1] == "load average 1.0 → 2.0"


def test_latencies_are_told_in_trickle_batches_of_the_reference() -> None:
    batches = [
        BatchTimes(DECODING, 100, 9, flat(200.0)),
        BatchTimes(DECODING, 1_000, 9, flat(400.0)),
    ]
    printed = tables(
        Figures(100, [1.0], batches, [Latency(True, 500, 9, 500.0, 800.0, 1_000.0, 1_001.0)])
    )
    assert "burst 500 9 500 (2.5×) 800 (4.0×) 1,000 (5.0×) 1,001" in " ".join(printed.split())


def test_growth_is_told_from_size_to_size() -> None:
    rounds = [
        RoundCost(brokers, flat(100.0), flat(100.0 + ms), flat(ms), flat(50.0))
        for brokers, ms in ((100, 10.0), (1_000, 80.0))
    ]
    assert "8.0× at 10× the size" in tables(Figures(100, [1.0], rounds=rounds))


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

"""The benchmark of many clusters: what it publishes, and what its figures say; a tiny real run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.fleet import Fleet
from benchmarks.many_clusters import Plan, Scale, records, text
from tests.servers.kafka_broker import KAFKA

pytestmark = pytest.mark.lab


def run_of(clusters: int, partitions: int, ms_per_report: float) -> Scale:
    return Scale(
        clusters, partitions, "one process", 1e3 / ms_per_report, ms_per_report, 1, 1, 1, 0
    )


def test_clusters_report_side_by_side_and_then_close_their_rounds() -> None:
    made = list(islice(records(3, Fleet(4, 2)), 3 * 5))
    read = [json.loads(value) for _, value in made]
    assert [one["cluster"].encode() for one in read] == [key for key, _ in made]
    assert Counter(one["kind"] for one in read) == {"load-report": 12, "sweep": 3}
    assert {one["cluster"] for one in read[:3]} == {"cluster-0000", "cluster-0001", "cluster-0002"}
    assert [one["kind"] for one in read[-3:]] == ["sweep"] * 3
    assert len({str(one["report"]["lastStats"]) for one in read[:3]}) == 3


def test_all_sizes_have_as_many_records_and_the_largest_some_passes() -> None:
    assert Plan(clusters=(10, 1_000), brokers=50, records=51_000, passes=3).counted == 153_000
    assert Plan(clusters=(10,), brokers=50, records=51_000, passes=3).counted == 51_000


def test_the_largest_size_is_compared_with_the_smallest_of_the_same_spark() -> None:
    said = text(
        [run_of(10, 1, 0.5), run_of(10, 2, 1.0), run_of(1_000, 1, 0.6), run_of(1_000, 2, 1.0)]
    )
    assert "1 partitions: a report of 1,000 clusters costs 1.20 times one of 10" in said
    assert "2 partitions: a report of 1,000 clusters costs 1.00 times one of 10" in said
    assert 'x-axis "clusters" [10, 1000]\n' in said
    assert "line [2000, 1667]\n    line [1000, 1000]\n" in said


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

"""Two real jobs after, and beside, each other on the same topics: the newer one is obeyed, the
older one's commands are refused.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pulsar_rebalancer.doctor.job_and_executor import check_epochs
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.spark.workshop import Workshop, eager, in_epoch, uneven
from tests.unit.executor_lives import run

pytestmark = pytest.mark.spark


def epochs(workshop: Workshop, kind: str) -> list[int]:
    return [record["epoch"] for record in workshop.records(kind)]


def test_a_job_that_starts_anew_takes_over_and_the_older_one_is_refused(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    lines = uneven(8)
    half = len(lines) // 2
    cold: dict[str, Any] = {"warm_start_minutes": 0}
    another = {**cold, "checkpoint": str(tmp_path / "another")}
    older, newer = workshop.job(**cold), workshop.job(**another)

    workshop.put(lines[:half])
    workshop.drain(spark, **cold)
    by_older = workshop.published()
    workshop.drain(spark, **another)
    workshop.put(lines[half:])
    workshop.drain(spark, **another)

    expected = workshop.expected(in_epoch(eager(), 2))
    assert workshop.since(by_older) == expected, "a restart keeps the epoch"
    assert set(epochs(workshop, "rounds")) == {1, 2}
    assert check_epochs(newer).status == "ok"

    behind = len(epochs(workshop, "commands"))
    workshop.drain(spark, **cold)
    assert set(epochs(workshop, "commands")[behind:]) == {1}
    assert check_epochs(older).status == "fail"
    assert check_epochs(newer).status == "warn"

    with FakePulsar(Cluster()) as pulsar:
        verdicts = run(pulsar, Control(tmp_path))
    refused = [code == "older-epoch" for _, code in verdicts]
    assert refused == [epoch == 1 for epoch in epochs(workshop, "commands")]

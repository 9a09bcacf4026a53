"""Two real jobs after, and beside, each other on the same topics: the newer one is obeyed, the
older one's commands are refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pulsar_rebalancer.doctor.processes import check_epochs
from streaming.job import run_job
from streaming.settings import JobSettings
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.spark.workshop import Workshop, eager, uneven
from tests.unit.executor_lives import run

pytestmark = pytest.mark.spark


def drain(spark: SparkSession, job: JobSettings) -> None:
    assert run_job(job, eager(), drain=True, session=spark).stopped_by == "drained"


def epochs(workshop: Workshop, kind: str) -> list[int]:
    return [json.loads(value)["epoch"] for value in workshop.published()[kind]]


def test_a_job_that_starts_anew_takes_over_and_the_older_one_is_refused(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    lines = uneven(8)
    half = len(lines) // 2
    older = workshop.job(warm_start_minutes=0)
    newer = replace(older, checkpoint=str(tmp_path / "another"))

    workshop.put(lines[:half])
    drain(spark, older)
    by_older = workshop.published()
    drain(spark, newer)
    workshop.put(lines[half:])
    drain(spark, newer)
    by_newer = {
        kind: values[len(by_older[kind]) :] for kind, values in workshop.published().items()
    }

    settings = eager()
    assert by_newer == workshop.expected(
        replace(settings, round=replace(settings.round, epoch=2))
    ), "a restart keeps the epoch"
    assert set(epochs(workshop, "rounds")) == {1, 2}
    assert check_epochs(newer).status == "ok"

    behind = len(epochs(workshop, "commands"))
    drain(spark, older)
    assert set(epochs(workshop, "commands")[behind:]) == {1}
    assert check_epochs(older).status == "fail"
    assert check_epochs(newer).status == "warn"

    with FakePulsar(Cluster()) as pulsar:
        verdicts = run(pulsar, Control(tmp_path))
    refused = [code == "older-epoch" for _, code in verdicts]
    assert refused == [epoch == 1 for epoch in epochs(workshop, "commands")]

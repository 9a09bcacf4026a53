"""A new checkpoint on telemetry that another job has decided on: it reads as far back as its memory
needs, publishes nothing of that, and then decides as if it had run all along.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.files.topic import FileTopicWriter
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard_file import GUARD, read_guard, write_guard
from streaming.job import run_job
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from tests.replayed import Published, replayed
from tests.spark.test_process import JobProcess
from tests.spark.workshop import Workshop, eager, recording, uneven

pytestmark = pytest.mark.spark


def run(spark: SparkSession, job: JobSettings, engine: EngineSettings) -> list[str]:
    """Drains the telemetry; what the job logs."""
    lines: list[str] = []
    run_job(job, engine, drain=True, session=spark, log=lines.append)
    return lines


def in_epoch(engine: EngineSettings, epoch: int) -> EngineSettings:
    return replace(engine, round=replace(engine.round, epoch=epoch))


def since(before: Published, workshop: Workshop) -> Published:
    return {kind: values[len(before[kind]) :] for kind, values in workshop.published().items()}


@pytest.mark.parametrize("partitions", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_changed_settings_decide_as_if_they_had_been_there_all_along(
    spark: SparkSession, workshop: Workshop, tmp_path: Path, partitions: int
) -> None:
    lines = recording("modular-broker-killed")
    workshop.put(lines[:120])
    run(spark, workshop.job(), eager("avg"))
    by_older = workshop.published()
    newer = replace(
        workshop.job(shuffle_partitions=partitions), checkpoint=str(tmp_path / "another")
    )

    said = run(spark, newer, eager())
    assert since(by_older, workshop) == {"commands": [], "rounds": [], "rejected": []}
    assert any(line.startswith("warm start: reads telemetry from 2026") for line in said)
    assert said[-1] == "warm start: done; from here on, rounds and commands are published"

    workshop.put(lines[120:])
    assert not any("warm start" in line for line in run(spark, newer, eager()))
    by_newer = since(by_older, workshop)
    assert by_newer == replayed(lines, in_epoch(eager(), 2), 120)
    assert min(len(by_newer["commands"]), len(by_newer["rounds"])) > 1, "something to compare"


@pytest.mark.slow
def test_a_kill_in_the_middle_of_it_changes_nothing(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    lines = recording("modular-broker-killed")
    workshop.put(lines[:120])
    run(spark, replace(workshop.job(), checkpoint=str(tmp_path / "older")), eager("avg"))
    by_older = workshop.published()

    with JobProcess(workshop, records=3) as process:
        process.wait_for((workshop.checkpoint / "commits" / "2").exists)
        process.signal_group(signal.SIGKILL)
        assert process.ended().code == -signal.SIGKILL
    warm = read_guard(workshop.checkpoint).warm
    assert warm is not None
    workshop.put(lines[120:])
    with JobProcess(workshop, records=3) as process:
        process.wait_for((workshop.checkpoint / "commits" / "6").exists)
        process.signal_group(signal.SIGKILL)
        process.ended()

    assert since(by_older, workshop) == {"commands": [], "rounds": [], "rejected": []}
    run(spark, workshop.job(), eager())
    assert read_guard(workshop.checkpoint).warm == replace(warm, done=True)
    assert since(by_older, workshop) == replayed(lines, in_epoch(eager(), 2), 120)


def test_state_of_another_format_is_kept_aside_and_a_new_one_is_warm(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines = recording("modular-broker-killed")
    workshop.put(lines[:120])
    run(spark, workshop.job(), eager())
    by_older = workshop.published()
    folder = workshop.checkpoint
    written = read_guard(folder)
    write_guard(folder / GUARD, replace(written, product="0.0.1", state={"cluster": 1, "rows": 1}))

    workshop.put(lines[120:150])
    said = run(spark, workshop.job(), eager())
    aside = folder.with_name("checkpoint.cluster-1-rows-1")
    assert read_guard(aside).product == "0.0.1"
    assert (aside / "commits").is_dir()
    assert any(str(aside) in line for line in said)
    workshop.put(lines[150:])
    run(spark, workshop.job(), eager())
    assert since(by_older, workshop) == replayed(lines, in_epoch(eager(), 2), 150)


def test_it_begins_as_many_minutes_ago_as_the_setting_says(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    with FileTopicWriter(workshop.folder / "telemetry", segment_bytes=10_000) as writer:
        for line in uneven(45):
            writer.append([line])
    run(spark, workshop.job(), eager())
    newer = replace(workshop.job(warm_start_minutes=5), checkpoint=str(tmp_path / "another"))
    batches: list[BatchProgress] = []
    run_job(newer, eager("avg"), drain=True, session=spark, on_progress=batches.append)
    assert 5 * 3 * 4 <= sum(batch.records for batch in batches) < 10 * 3 * 4
    assert all(batch.warming and batch.line().endswith("; warming") for batch in batches)
    assert read_guard(tmp_path / "another").warm is not None


@pytest.mark.parametrize("case", ["nobody decided before", "0 minutes"])
def test_without_it_everything_is_decided_and_published(
    spark: SparkSession, workshop: Workshop, tmp_path: Path, case: str
) -> None:
    workshop.put(uneven(8))
    before = workshop.published()
    if case == "0 minutes":
        run(spark, workshop.job(), eager("avg"))
        before = workshop.published()
    newer = replace(workshop.job(warm_start_minutes=0), checkpoint=str(tmp_path / "another"))
    run(spark, newer if case == "0 minutes" else workshop.job(), eager())
    epoch = 2 if case == "0 minutes" else 1
    assert since(before, workshop) == workshop.expected(in_epoch(eager(), epoch))

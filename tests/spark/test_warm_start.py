"""A new checkpoint on telemetry that another job has decided on: it reads as far back as its memory
needs, publishes nothing of that, and then decides as if it had run all along.
"""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sinks.topics.files.topic import FileTopicWriter
from streaming.checkpoint.remembered_and_changed_settings import GUARD, read_guard, write_guard
from tests.replayed import Published, replayed
from tests.spark.test_process import JobProcess
from tests.spark.workshop import Workshop, eager, in_epoch, uneven
from tools.processes.real_job import recording

pytestmark = pytest.mark.spark


LINES = recording("modular-broker-killed")
NOTHING: dict[str, list[bytes]] = {"commands": [], "rounds": [], "rejected": []}


def decided_anew(first: int) -> Published:
    """What a job in the second epoch decides on the records from number `first` on."""
    return replayed(LINES, in_epoch(eager(), 2), first)


@pytest.mark.parametrize("partitions", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_changed_settings_decide_as_if_they_had_been_there_all_along(
    spark: SparkSession, workshop: Workshop, tmp_path: Path, partitions: int
) -> None:
    workshop.put(LINES[:120])
    workshop.drain(spark, eager("avg"))
    by_older = workshop.published()
    another = str(tmp_path / "another")
    newer: dict[str, Any] = {"shuffle_partitions": partitions, "checkpoint": another}

    said = workshop.drain(spark, **newer).said
    assert workshop.since(by_older) == NOTHING
    assert any(line.startswith("warm start: reads telemetry from 2026") for line in said)
    assert said[-1] == "warm start: done; from here on, rounds and commands are published"

    workshop.put(LINES[120:])
    assert not any("warm start" in line for line in workshop.drain(spark, **newer).said)
    by_newer = workshop.since(by_older)
    assert by_newer == decided_anew(120)
    assert min(len(by_newer["commands"]), len(by_newer["rounds"])) > 1, "something to compare"


def killed(workshop: Workshop, batch: str) -> None:
    """Runs the job until it has committed a micro-batch."""
    with JobProcess(workshop, records=3) as process:
        process.wait_until((workshop.checkpoint / "commits" / batch).exists)
        process.signal_group(signal.SIGKILL)
        assert process.ended() == -signal.SIGKILL


@pytest.mark.slow
def test_a_kill_in_the_middle_of_it_changes_nothing(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.put(LINES[:120])
    workshop.drain(spark, eager("avg"), checkpoint=str(tmp_path / "older"))
    by_older = workshop.published()

    killed(workshop, "2")
    warm = read_guard(workshop.checkpoint).warm
    assert warm is not None
    workshop.put(LINES[120:])
    killed(workshop, "6")

    assert workshop.since(by_older) == NOTHING
    workshop.drain(spark)
    assert read_guard(workshop.checkpoint).warm == replace(warm, done=True)
    assert workshop.since(by_older) == decided_anew(120)


def test_state_of_another_format_is_kept_aside_and_a_new_one_is_warm(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put(LINES[:120])
    workshop.drain(spark)
    by_older = workshop.published()
    folder = workshop.checkpoint
    written = read_guard(folder)
    write_guard(folder / GUARD, replace(written, product="0.0.1", state={"cluster": 1, "rows": 1}))

    workshop.put(LINES[120:150])
    said = workshop.drain(spark).said
    aside = folder.with_name("checkpoint.cluster-1-rows-1")
    assert read_guard(aside).product == "0.0.1"
    assert (aside / "commits").is_dir()
    assert any(str(aside) in line for line in said)
    workshop.put(LINES[150:])
    workshop.drain(spark)
    assert workshop.since(by_older) == decided_anew(150)


def test_it_begins_as_many_minutes_ago_as_the_setting_says(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    with FileTopicWriter(workshop.folder / "telemetry", segment_bytes=10_000) as writer:
        for line in uneven(45):
            writer.append([line])
    workshop.drain(spark)
    newer: dict[str, Any] = {"warm_start_minutes": 5, "checkpoint": str(tmp_path / "another")}
    batches = workshop.drain(spark, eager("avg"), **newer).progress
    assert 5 * 3 * 4 <= sum(batch.records for batch in batches) < 10 * 3 * 4
    assert all(batch.warming and batch.line().endswith("; warming") for batch in batches)
    assert read_guard(tmp_path / "another").warm is not None

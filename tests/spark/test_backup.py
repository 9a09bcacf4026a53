"""A checkpoint that was put back from a copy goes on from there: what it publishes again is what
was published before.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.checkpoint_state.repartition import repartition
from streaming.job import run_job
from tests.spark.workshop import Workshop, eager, recording

pytestmark = pytest.mark.spark


def test_a_restored_checkpoint_publishes_the_same_again(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines, copy = recording("modular-broker-killed"), workshop.folder / "copy"
    half = len(lines) // 2
    workshop.put(lines[:half])
    run_job(workshop.job(), eager(), drain=True, session=spark)
    shutil.copytree(workshop.checkpoint, copy)
    workshop.put(lines[half:])
    run_job(workshop.job(), eager(), drain=True, session=spark)
    once = workshop.published()
    assert once == workshop.expected(eager())

    shutil.rmtree(workshop.checkpoint)
    shutil.copytree(copy, workshop.checkpoint)
    run_job(workshop.job(), eager(), drain=True, session=spark)

    twice = workshop.published()
    assert len(twice["rounds"]) > len(once["rounds"])
    assert {kind: list(dict.fromkeys(values)) for kind, values in twice.items()} == once


@pytest.mark.variant
def test_a_checkpoint_that_was_moved_to_another_folder_goes_on(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    lines = recording("modular-broker-killed")
    half = len(lines) // 2
    workshop.put(lines[:half])
    run_job(workshop.job(), eager(), drain=True, session=spark)
    moved = workshop.checkpoint.rename(tmp_path / "another-disk")
    workshop.put(lines[half:])
    run_job(replace(workshop.job(), checkpoint=str(moved)), eager(), drain=True, session=spark)
    assert workshop.published() == workshop.expected(eager())
    assert repartition(moved, 2, session=spark).clusters == 1

"""A checkpoint that was put back from a copy goes on from there: what it publishes again is what
was published before.
"""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.checkpoint_state.repartition import repartition
from tests.spark.workshop import Workshop
from tools.processes.real_job import recording

pytestmark = pytest.mark.spark

LINES = recording("modular-broker-killed")
HALF = len(LINES) // 2


def test_a_restored_checkpoint_publishes_the_same_again(
    spark: SparkSession, workshop: Workshop
) -> None:
    copy = workshop.folder / "copy"
    workshop.put(LINES[:HALF])
    workshop.drain(spark)
    shutil.copytree(workshop.checkpoint, copy)
    workshop.put(LINES[HALF:])
    workshop.drain(spark)
    once = workshop.published()
    assert once == workshop.expected()

    shutil.rmtree(workshop.checkpoint)
    shutil.copytree(copy, workshop.checkpoint)
    workshop.drain(spark)

    twice = workshop.published()
    assert len(twice["rounds"]) > len(once["rounds"])
    assert {kind: list(dict.fromkeys(values)) for kind, values in twice.items()} == once


@pytest.mark.variant
def test_a_checkpoint_that_was_moved_to_another_folder_goes_on(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.put(LINES[:HALF])
    workshop.drain(spark)
    moved = workshop.checkpoint.rename(tmp_path / "another-disk")
    workshop.put(LINES[HALF:])
    workshop.drain(spark, checkpoint=str(moved))
    assert workshop.published() == workshop.expected()
    assert repartition(moved, 2, session=spark).clusters == 1

"""`rebalancer state repartition`: the same state in another number of partitions, and a job that
goes on as if nothing had happened.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strategies.errors import StateVersionError
from streaming.checkpoint.guard import CheckpointInUse, guarded
from streaming.checkpoint.remembered_and_changed_settings import read_guard
from streaming.checkpoint_state.reader import clusters_of, read_shards
from streaming.checkpoint_state.repartition import content, repartition
from tests.spark.workshop import Workshop, by_kind_and_cluster, side_by_side, uneven

pytestmark = pytest.mark.spark


def drain(spark: SparkSession, workshop: Workshop, partitions: int) -> None:
    workshop.drain(spark, max_records_per_batch=50, shuffle_partitions=partitions)


def test_one_three_and_two_partitions_hold_the_same_and_decide_the_same(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines = side_by_side([f"c{number}" for number in range(5)], 9)
    third, folder = len(lines) // 3, workshop.checkpoint
    workshop.put(lines[:third])
    drain(spark, workshop, 1)
    before = content(clusters_of(read_shards(spark, folder)))
    assert len(before) == 5

    result = repartition(folder, 3, session=spark)

    assert (result.clusters, result.folder) == (5, folder)
    assert result.aside == folder.with_name("checkpoint.1-partitions")
    assert content(clusters_of(read_shards(spark, folder))) == before
    workshop.put(lines[third : 2 * third])
    drain(spark, workshop, 3)
    left_behind = folder.with_name(".checkpoint.repartition")
    (left_behind / "state").mkdir(parents=True)  # by a run that was killed
    repartition(folder, 2, session=spark)
    assert not left_behind.exists()
    workshop.put(lines[2 * third :])
    drain(spark, workshop, 2)
    assert read_guard(folder).epoch == 1
    expected = workshop.expected()
    assert len(expected["commands"]) > 5
    assert by_kind_and_cluster(workshop.published()) == by_kind_and_cluster(expected)


def test_without_a_record_of_a_cluster_there_is_nothing_to_copy(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put([b"nonsense"])
    drain(spark, workshop, 1)
    with pytest.raises(StateVersionError, match="has no state yet"):
        repartition(workshop.checkpoint, 3, session=spark)


@pytest.mark.variant
def test_a_copy_leaves_the_old_checkpoint_where_it_is(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.put(uneven(3))
    drain(spark, workshop, 2)
    files = sorted(path for path in workshop.checkpoint.rglob("*") if path.is_file())

    result = repartition(workshop.checkpoint, 1, tmp_path / "copy", session=spark)

    assert (result.folder, result.aside) == (tmp_path / "copy", None)
    assert files == sorted(path for path in workshop.checkpoint.rglob("*") if path.is_file())
    with pytest.raises(StateVersionError, match="copy is not empty"):
        repartition(workshop.checkpoint, 3, tmp_path / "copy", session=spark)
    with pytest.raises(StateVersionError, match="has 2 partitions already"):
        repartition(workshop.checkpoint, 2, session=spark)
    of_another_run = workshop.folder / ".checkpoint.repartition"
    of_another_run.mkdir()
    with (
        guarded(workshop.checkpoint, read_guard(workshop.checkpoint)),
        pytest.raises(CheckpointInUse),
    ):
        repartition(workshop.checkpoint, 3, session=spark)
    assert of_another_run.exists()
    newest = max((workshop.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    with pytest.raises(StateVersionError, match="contains an unfinished micro-batch"):
        repartition(workshop.checkpoint, 3, session=spark)

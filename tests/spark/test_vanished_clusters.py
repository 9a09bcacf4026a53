"""Clusters that vanish: their rows leave Spark's state, and when they come back they decide as the
plain loop says, which never dropped anything.
"""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from sinks.metrics.settings import MetricsSettings
from strategies.fold.engine import EngineSettings
from streaming.checkpoint_state.reader import read_state
from streaming.progress import BatchProgress
from streaming.state.forget_clusters import ForgetPolicy
from streaming.state.shards import shard_of
from tests.spark.workshop import Workshop, by_kind_and_cluster, eager, side_by_side, uneven

#: Long before any machine's time.
PAST = -700 * 86_400
#: After the absence: a day and a half.
BACK = PAST + 129_600
LIVING = [f"living-{number}" for number in range(6)]
GONE = [f"gone-{number}" for number in range(8)]
AT_ONCE = ForgetPolicy(margin_ms=0, running_ms=0)


def settings() -> EngineSettings:
    rounds = replace(eager().round, clock_recovery_ms=60_000, forget_cluster_after_days=1)
    return replace(eager(), round=rounds)


def before() -> list[bytes]:
    """One cluster after the other, so that each has rows of its own."""
    return [line for name in [*GONE, *LIVING] for line in uneven(6, name, start_s=PAST)]


def brokers_of(spark: SparkSession, workshop: Workshop) -> set[str]:
    """The clusters that have brokers in the checkpoint."""
    return {row.cluster for row in read_state(workshop.checkpoint, session=spark).brokers}


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_rows_of_vanished_clusters_leave_and_they_decide_as_in_the_plain_loop(
    spark: SparkSession, workshop: Workshop, partitions: int
) -> None:
    assert {shard_of(name, partitions) for name in LIVING} == {
        shard_of(name, partitions) for name in [*LIVING, *GONE]
    }

    def drain(lines: list[bytes], records: int) -> list[BatchProgress]:
        workshop.put(lines)
        return workshop.drain(
            spark,
            settings(),
            metrics=MetricsSettings("127.0.0.1:0"),
            forget_policy=AT_ONCE,
            max_records_per_batch=records,
            shuffle_partitions=partitions,
        ).progress

    full = drain(before(), 48)[-1]
    assert brokers_of(spark, workshop) == {*LIVING, *GONE}
    swept = drain(side_by_side(LIVING, 8, BACK), 64)
    assert brokers_of(spark, workshop) == {*LIVING}
    forgotten = read_state(workshop.checkpoint, session=spark).forgotten
    last = {one["cluster"]: one["round"] for one in workshop.records("rounds")}
    assert [(one.cluster, one.round) for one in forgotten] == [
        (name, last[name]) for name in sorted(GONE)
    ]
    assert {name for batch in swept for one in batch.facts for name in one.vanished} == {*GONE}
    assert swept[-1].state_rows < full.state_rows
    drain(side_by_side([*LIVING, *GONE], 12, BACK + 600), 300)
    expected, rounds = workshop.expected(settings()), workshop.records("rounds")
    assert {one["cluster"] for one in rounds if one["round"] > last[one["cluster"]]} >= {*GONE}
    assert by_kind_and_cluster(workshop.published()) == by_kind_and_cluster(expected)

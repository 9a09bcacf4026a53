"""The job as real Spark queries: the bytes of the plain loop, however batches are cut; restarts;
what is refused; what it tells.
"""

import json
import threading
import time
from dataclasses import replace
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from sinks.graceful_stop import Stop
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from streaming.job import JobResult, check_job, run_job
from streaming.outputs.counts_of_micro_batch import KINDS, Written
from streaming.settings import JobSettings
from streaming.state.shards import shard_keys, shard_of
from tests.lanes import variant
from tests.raising_strategy import WITH_RAISING, RaisingSettings
from tests.replayed import Published
from tests.spark.workshop import Workshop, by_kind_and_cluster, eager, side_by_side, uneven
from tests.topic_uris import topics_of
from tools.processes.real_job import recording
from tools.waiting import eventually

pytestmark = pytest.mark.spark


class Running:
    """The job in a thread of its own, as long as the block lasts."""

    def __init__(self, spark: SparkSession, job: JobSettings, engine: EngineSettings) -> None:
        self._stop = Stop()
        self._result: JobResult | None = None
        self._thread = threading.Thread(target=self._run, args=(spark, job, engine))

    def _run(self, spark: SparkSession, job: JobSettings, engine: EngineSettings) -> None:
        self._result = run_job(job, engine, stop=self._stop, session=spark)

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.result()

    def result(self) -> JobResult:
        self._stop.set()
        self._thread.join(300)
        assert self._result is not None
        return self._result


class Cut(NamedTuple):
    """How a recording is cut into micro-batches. `first`: only so many records of it, where batches
    are tiny.
    """

    name: str
    strategy: str
    records: int
    partitions: int
    first: int = 1_000


JOINS, KILLED = "modular-broker-joins", "modular-broker-killed"
CUTS = [
    Cut(JOINS, "avg", 1, 1, first=40),
    Cut(KILLED, "avg", 7, 1, first=120),
    Cut(KILLED, "threshold", 1000, 3),
    variant(Cut(JOINS, "avg", 1000, 1)),
    pytest.param(Cut(JOINS, "threshold", 1, 3), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_recording_gives_the_bytes_of_the_plain_loop(
    spark: SparkSession, workshop: Workshop, cut: Cut
) -> None:
    lines = recording(cut.name)[: cut.first]
    workshop.put(lines)
    engine = eager(cut.strategy)
    told = workshop.drain(
        spark, engine, max_records_per_batch=cut.records, shuffle_partitions=cut.partitions
    )
    full, rest = divmod(len(lines), cut.records)
    assert [batch.records for batch in told.progress] == [cut.records] * full + [rest] * (rest > 0)
    expected = workshop.expected(engine)
    assert expected["commands"]
    assert workshop.published() == expected


def test_a_restart_goes_on_where_the_checkpoint_stands(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines = recording("modular-broker-killed")
    for start in range(0, len(lines), 90):
        workshop.put(lines[start : start + 90])
        workshop.drain(spark, max_records_per_batch=40)
    assert workshop.published() == workshop.expected()


@pytest.mark.parametrize(("partitions", "records"), [(1, 24), variant(3, 1_000)])
def test_a_strategy_that_raises_for_one_cluster_stops_no_other(
    spark: SparkSession, workshop: Workshop, partitions: int, records: int
) -> None:
    names = [f"cluster-{number}" for number in range(4)]
    workshop.put(side_by_side(names, 8))
    healthy = RaisingSettings(threshold_percent=1, history=0.5, min_throughput_mib=0)
    poisoned = replace(healthy, raises_for=names[1], until_ms=10**15)
    engine, whole = (
        replace(eager(), strategy="raising", shedding=one, shedders=WITH_RAISING)
        for one in (poisoned, healthy)
    )
    workshop.drain(spark, engine, shuffle_partitions=partitions, max_records_per_batch=records)
    published, undisturbed = workshop.published(), workshop.expected(whole)
    assert by_cluster(published, names[1]) == by_cluster(workshop.expected(engine), names[1])
    for name in (names[0], *names[2:]):
        assert by_cluster(published, name) == by_cluster(undisturbed, name)
        assert by_cluster(published, name)["commands"]
    states = [json.loads(one)["state"]["code"] for one in by_cluster(published, names[1])["rounds"]]
    assert {*states} == {"set-aside"}


def by_cluster(published: Published, name: str) -> Published:
    """What was published of one cluster, in order."""
    return {
        kind: [value for value in values if json.loads(value)["cluster"] == name]
        for kind, values in published.items()
    }


@pytest.mark.parametrize(
    "partitions", [2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 7))]
)
def test_many_clusters_decide_as_in_the_plain_loop_in_one_shard_per_partition(
    spark: SparkSession, workshop: Workshop, partitions: int
) -> None:
    names = [f"c{number}" for number in range(12)]
    workshop.put(side_by_side(names, 5))
    workshop.drain(spark, max_records_per_batch=70, shuffle_partitions=partitions)
    expected = workshop.expected()
    assert len(expected["commands"]) >= 12
    # Between clusters there is no order.
    assert by_kind_and_cluster(workshop.published()) == by_kind_and_cluster(expected)
    state = spark.read.format("statestore").option("path", str(workshop.checkpoint))
    rows = state.option("stateVarName", "state").load().select("key.shard", "partition_id")
    used = {shard_of(name, partitions) for name in names}
    assert {row.shard: row.partition_id for row in rows.distinct().collect()} == {
        shard: at for at, shard in enumerate(shard_keys(partitions)) if shard in used
    }


def test_a_live_job_takes_what_comes_and_no_half_lines(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines = uneven(5)
    workshop.put(lines[:-1])
    segment = workshop.folder / "telemetry" / "segment-00000000.jsonl"
    with Running(spark, workshop.job(), eager()) as running:
        eventually(lambda: len(workshop.published()["rounds"]) == 4)
        with segment.open("ab") as half:
            half.write(lines[-1][:40])
        time.sleep(1)
        assert workshop.published()["rejected"] == []
        with segment.open("ab") as rest:
            rest.write(lines[-1][40:] + b"\n")
        eventually(lambda: len(workshop.published()["rounds"]) == 5)
        result = running.result()
    assert result.stopped_by == "stop"
    assert result.written == Written(len(workshop.published()["commands"]), 5, 0)
    assert workshop.published() == workshop.expected()


def test_a_stop_before_the_start_or_in_a_backlog_loses_and_repeats_nothing(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put(recording("modular-broker-joins"))
    stop = Stop()
    stop.set()
    before = run_job(workshop.job(), eager(), stop=stop, session=spark)
    assert (before, workshop.published()["rounds"]) == (JobResult("stop", Written()), [])
    with Running(spark, workshop.job(max_records_per_batch=3), eager()):
        eventually(lambda: len(workshop.published()["rounds"]) >= 2)
    stopped = workshop.published()
    assert 2 <= len(stopped["rounds"]) < 16
    workshop.drain(spark)
    assert workshop.published() == workshop.expected()


def test_progress_tells_time_by_phase_lag_and_what_was_published(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put(uneven(3))
    file = workshop.folder / "progress.jsonl"
    told = workshop.drain(spark, max_records_per_batch=8, progress_file=str(file))
    first, second = told.progress
    assert (first.batch, first.records, first.behind_records) == (0, 8, 4)
    assert (second.records, second.behind_records) == (4, 0)
    # The head, brokers, tables, and the cluster's fields as of both micro-batches.
    assert second.state_rows == 5
    assert second.state_memory_bytes > 0
    assert (first.written + second.written).rounds == 3
    assert 0 < first.phases_ms["addBatch"] <= first.took_ms
    assert "8 records in" in first.line()
    assert [json.loads(line)["records"] for line in file.read_text().splitlines()] == [8, 4]


def test_settings_that_cannot_run_are_all_named_before_anything_starts(workshop: Workshop) -> None:
    topics = topics_of(**dict.fromkeys(("telemetry", *KINDS), workshop.uri("t")))
    with pytest.raises(SettingsError) as wrong:
        check_job(workshop.job(topics=topics), eager())
    named = [complaint.split(":")[0] for complaint in wrong.value.complaints]
    assert named == ["topics.commands", "topics.rounds", "topics.rejected"]
    with pytest.raises(SettingsError):
        check_job(workshop.job(), EngineSettings(strategy="unheard-of"))

"""The job as real Spark queries: the bytes of the plain loop, however batches are cut; restarts;
what is refused; what it tells.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sinks.stopping import Stop
from sinks.wire.codec import decode_rejected
from sinks.wire.signing import SigningSettings, intents_key
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from strategies.settings import RoundSettings
from streaming.checkpoint_state.reader import read_state
from streaming.job import JobResult, check_job, run_job
from streaming.outputs.output_counts import Written
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.state.shards import shard_keys, shard_of
from tests.lanes import variant
from tests.raising_strategy import WITH_RAISING, RaisingSettings
from tests.replayed import Published
from tests.spark.workshop import Workshop, by_kind_and_cluster, eager, recording, uneven
from tests.telemetry_lines import intent
from tests.topic_uris import topics_of
from tools.waiting import eventually

pytestmark = pytest.mark.spark


def drain(
    spark: SparkSession, workshop: Workshop, engine: EngineSettings, **settings: Any
) -> list[BatchProgress]:
    progress: list[BatchProgress] = []
    result = run_job(
        workshop.job(**settings), engine, drain=True, on_progress=progress.append, session=spark
    )
    assert result.stopped_by == "drained"
    return progress


class Running:
    """The job in a thread of its own, as long as the block lasts."""

    def __init__(self, spark: SparkSession, job: JobSettings, engine: EngineSettings) -> None:
        self._stop = Stop()
        self._result: JobResult | None = None
        self._thread = threading.Thread(target=self._run, args=(spark, job, engine))

    def _run(self, spark: SparkSession, job: JobSettings, engine: EngineSettings) -> None:
        self._result = run_job(job, engine, stop=self._stop, session=spark)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.result()

    def result(self) -> JobResult:
        self._stop.set()
        self._thread.join(300)
        assert self._result is not None
        return self._result


@dataclass(frozen=True)
class Cut:
    """How a recording is cut into micro-batches. `first`: only so many records of it, where batches
    are tiny.
    """

    name: str
    strategy: str
    records: int
    partitions: int
    first: int = 1_000


CUTS = [
    Cut("modular-broker-joins", "avg", 1, 1, first=40),
    Cut("modular-broker-killed", "avg", 7, 1, first=120),
    Cut("modular-broker-killed", "threshold", 1000, 3),
    variant(Cut("modular-broker-joins", "avg", 1000, 1)),
]
LONG = [
    Cut("modular-broker-joins", "threshold", 7, 3),
    Cut("modular-broker-killed", "threshold", 1, 3, first=60),
    *(
        Cut(name, "threshold", 1, partitions)
        for name in ("modular-broker-joins", "modular-broker-killed")
        for partitions in (1, 3)
    ),
]


@pytest.mark.parametrize(
    "cut", [*CUTS, *(pytest.param(cut, marks=pytest.mark.slow) for cut in LONG)], ids=str
)
def test_a_recording_gives_the_bytes_of_the_plain_loop(
    spark: SparkSession, workshop: Workshop, cut: Cut
) -> None:
    lines = recording(cut.name)[: cut.first]
    workshop.put(lines)
    engine = eager(cut.strategy)
    progress = drain(
        spark,
        workshop,
        engine,
        max_records_per_batch=cut.records,
        shuffle_partitions=cut.partitions,
    )
    full, rest = divmod(len(lines), cut.records)
    assert [batch.records for batch in progress] == [cut.records] * full + [rest] * (rest > 0)
    expected = workshop.expected(engine)
    assert expected["commands"]
    assert workshop.published() == expected


def test_a_restart_goes_on_where_the_checkpoint_stands(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines = recording("modular-broker-killed")
    for start in range(0, len(lines), 90):
        workshop.put(lines[start : start + 90])
        drain(spark, workshop, eager(), max_records_per_batch=40)
    assert workshop.published() == workshop.expected(eager())


@pytest.mark.parametrize(("partitions", "records"), [(1, 24), variant(3, 1_000)])
def test_a_strategy_that_raises_for_one_cluster_stops_no_other(
    spark: SparkSession, workshop: Workshop, partitions: int, records: int
) -> None:
    names = [f"cluster-{number}" for number in range(4)]
    lines = [
        line for some in zip(*(uneven(8, name) for name in names), strict=True) for line in some
    ]
    workshop.put(lines)
    healthy = RaisingSettings(threshold_percent=1, history=0.5, min_throughput_mib=0)
    poisoned = replace(healthy, raises_for=names[1], until_ms=10**15)
    engine, whole = (
        replace(eager(), strategy="raising", shedding=one, shedders=WITH_RAISING)
        for one in (poisoned, healthy)
    )
    drain(spark, workshop, engine, shuffle_partitions=partitions, max_records_per_batch=records)
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


def test_only_signed_intents_drain_a_broker(spark: SparkSession, workshop: Workshop) -> None:
    """As in the plain loop, but for the intent that is not signed with the job's key."""
    (workshop.folder / "key").write_text("i" * 32, "utf-8")
    signing = SigningSettings("", "", str(workshop.folder / "key"))
    key = intents_key(signing)
    assert key is not None
    lines = uneven(8)
    lines.insert(9, key.sign(intent(61, broker="b0:8080")))
    workshop.put(lines)
    expected = workshop.expected(eager())
    assert b"Zo" in expected["rounds"][-1]

    lines.insert(5, intent(40, broker="b1:8080"))
    unsigned = Workshop(workshop.folder / "unsigned")
    unsigned.put(lines)
    drain(
        spark,
        unsigned,
        eager(),
        max_records_per_batch=7,
        shuffle_partitions=3,
        signing=signing,
    )
    published = unsigned.published()
    (rejected,) = published["rejected"]
    assert decode_rejected(rejected).code == "intent-unsigned"
    assert {**published, "rejected": []} == expected


@pytest.mark.parametrize(
    "partitions", [2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 7))]
)
def test_many_clusters_decide_as_in_the_plain_loop_in_one_shard_per_partition(
    spark: SparkSession, workshop: Workshop, partitions: int
) -> None:
    clusters = [uneven(5, f"c{number}") for number in range(12)]
    workshop.put([line for lines in zip(*clusters, strict=True) for line in lines])
    drain(spark, workshop, eager(), max_records_per_batch=70, shuffle_partitions=partitions)
    expected = workshop.expected(eager())
    assert len(expected["commands"]) >= 12
    # Between clusters there is no order.
    assert by_kind_and_cluster(workshop.published()) == by_kind_and_cluster(expected)
    keys = shard_keys(partitions)
    used = {shard_of(f"c{number}", partitions) for number in range(12)}
    assert partitions_of_shards(spark, workshop.folder / "checkpoint") == {
        shard: partition for partition, shard in enumerate(keys) if shard in used
    }


def partitions_of_shards(spark: SparkSession, checkpoint: Path) -> dict[int, int]:
    """Where Spark keeps them."""
    state = spark.read.format("statestore").option("path", str(checkpoint))
    rows = state.option("stateVarName", "state").load()
    return {
        row.shard: row.partition_id
        for row in rows.select("key.shard", "partition_id").distinct().collect()
    }


def test_bad_records_are_all_on_the_rejected_topic_and_stop_nothing(
    spark: SparkSession, workshop: Workshop
) -> None:
    bad = [
        b"nonsense",
        b"\xff",
        b"{}",
        b'{"v":9,"kind":"sweep","cluster":"c","ts":1}',
        b"[" * 500,
        b'{"big":"' + b"x" * 9_000_000 + b'"}',
        b"",
    ]
    lines = uneven(6)
    workshop.put([line for i, good in enumerate(lines) for line in (bad[i % len(bad)], good)])
    drain(spark, workshop, eager(), max_records_per_batch=13)
    expected, published = workshop.expected(eager()), workshop.published()
    assert (published["commands"], published["rounds"]) == (
        expected["commands"],
        expected["rounds"],
    )
    assert sorted(published["rejected"]) == sorted(expected["rejected"])
    assert len(published["rejected"]) == len(lines)


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
    assert workshop.published() == workshop.expected(eager())


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
    drain(spark, workshop, eager())
    assert workshop.published() == workshop.expected(eager())


def test_progress_tells_time_by_phase_lag_and_what_was_published(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put(uneven(3))
    file = workshop.folder / "progress.jsonl"
    first, second = drain(
        spark, workshop, eager(), max_records_per_batch=8, progress_file=str(file)
    )
    assert (first.batch, first.records, first.behind_records) == (0, 8, 4)
    assert (second.records, second.behind_records) == (4, 0)
    # The head, brokers, tables, and the cluster's fields as of both micro-batches.
    assert second.state_rows == 5
    assert (first.written + second.written).rounds == 3
    assert 0 < first.phases_ms["addBatch"] <= first.took_ms
    assert "8 records in" in first.line()
    assert [json.loads(line)["records"] for line in file.read_text().splitlines()] == [8, 4]


def test_a_checkpoint_of_other_settings_is_refused_before_anything_is_read(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put(uneven(2))
    drain(spark, workshop, eager())
    before = workshop.published()
    with pytest.raises(
        SettingsError, match=r"round\.interval_ms: 30000, but the checkpoint was written with 20000"
    ):
        drain(
            spark,
            workshop,
            replace(eager(), round=RoundSettings(interval_ms=30_000, cool_down_ms=60_000)),
        )
    with pytest.raises(SettingsError, match=r"job\.shuffle_partitions: 2, but"):
        drain(spark, workshop, eager(), shuffle_partitions=2)
    assert workshop.published() == before


def test_the_state_of_a_checkpoint_can_be_read_without_its_job(
    spark: SparkSession, workshop: Workshop
) -> None:
    workshop.put(uneven(4))
    drain(spark, workshop, eager())
    rows = read_state(workshop.checkpoint, session=spark).brokers
    assert [(row.cluster, row.broker, row.round) for row in rows] == [
        ("c", f"b{i}:8080", 4) for i in range(3)
    ]
    assert [row.age_ms for row in rows] == [3000, 2000, 1000]
    assert all(row.ewma is not None and row.hit_high is None for row in rows)
    # The fullest broker was told to give to another, and nobody has carried it out yet: it counts
    # as done.
    assert len({row.ewma for row in rows}) == 3
    assert rows[0].bundles == 4


def test_settings_that_cannot_run_are_all_named_before_anything_starts(workshop: Workshop) -> None:
    topics = topics_of(
        telemetry=workshop.uri("t"),
        commands=workshop.uri("t"),
        rounds=workshop.uri("t"),
        rejected=workshop.uri("t"),
    )
    with pytest.raises(SettingsError) as wrong:
        check_job(workshop.job(topics=topics), eager())
    assert [complaint.split(":")[0] for complaint in wrong.value.complaints] == [
        "topics.commands",
        "topics.rounds",
        "topics.rejected",
    ]
    with pytest.raises(SettingsError):
        check_job(workshop.job(), EngineSettings(strategy="unheard-of"))

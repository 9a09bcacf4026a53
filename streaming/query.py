"""The Spark query: from the telemetry topic through the stateful operator to the output topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.kafka.settings import KafkaAccess
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard_file import Guard
from streaming.checkpoint.warm_start import WarmStart
from streaming.decode import PACKED, decoding, packer, unpacking
from streaming.large_records import never_again
from streaming.outputs.output import Output
from streaming.outputs.output_counts import counted
from streaming.processor import OUTPUT, PUBLISH_ALL, ClusterProcessor
from streaming.settings import JobSettings
from streaming.sources.files import FileSource, FileTopicSource, record_again
from streaming.sources.kafka import kafka_records
from streaming.sources.pulsar import BEGIN, PulsarSource, PulsarTopic
from streaming.state.shards import shard_keys
from streaming.state.vanished import ForgetPolicy
from streaming.warm_start import with_start


@dataclass(frozen=True)
class Run:
    """Settings of one run, and its checkpoint: folder and guard. `drain`: process the records that
    exist now, then end.
    """

    job: JobSettings
    engine: EngineSettings
    kafka: KafkaAccess
    folder: Path
    guard: Guard
    drain: bool
    metrics: MetricsSettings
    forget_policy: ForgetPolicy

    @property
    def warm(self) -> WarmStart | None:
        """A warm start that has not ended when the run begins."""
        warm = self.guard.warm
        return None if warm is None or warm.done else warm


def start_query(spark: SparkSession, run: Run, output: Output) -> StreamingQuery:
    """Starts the query with its source, its checkpoint and its sink."""
    job = run.job
    until = PUBLISH_ALL if run.warm is None else run.warm.until
    telemetry = _telemetry(spark, run)
    found = decided(
        telemetry, job, run.engine, run.metrics, forget_policy=run.forget_policy, until=until
    )
    rows = output.writer(counted(found, with_facts=bool(run.metrics.listen))).outputMode("update")
    # Without the scheme, Hadoop's default file system would be used.
    rows = rows.option("checkpointLocation", f"file://{run.folder}")
    if run.drain:
        return rows.trigger(availableNow=True).start()
    return rows.trigger(processingTime=f"{job.trigger_ms} milliseconds").start()


def _telemetry(spark: SparkSession, run: Run) -> DataFrame:
    job, warm = run.job, run.warm
    used = with_start(job.connections, warm)
    limits = (job.max_records_per_batch, job.max_bytes_per_batch)
    topic = used.topics.telemetry
    if topic.scheme == "kafka":
        return kafka_records(spark, topic, job, replace(run.kafka, settings=used.kafka))
    if topic.scheme == "pulsar":
        begin = str(run.folder / BEGIN)
        place = PulsarTopic(topic, *limits, job.read_tasks, used.wire, used.pulsar, begin)
        spark.dataSource.register(PulsarSource)
        return spark.readStream.format(PulsarSource.name()).options(**place.options()).load()
    lossless = used.files.fail_on_data_loss
    since_ms = None if warm is None else warm.since_ms
    source = FileSource(topic, *limits, job.read_tasks, used.wire, lossless, since_ms)
    spark.dataSource.register(FileTopicSource)
    return spark.readStream.format(FileTopicSource.name()).options(**source.options()).load()


def decided(
    records: DataFrame,
    job: JobSettings,
    engine: EngineSettings,
    metrics: MetricsSettings = METRICS_OFF,
    *,
    forget_policy: ForgetPolicy = ForgetPolicy(),
    until: Mapping[int, int] = PUBLISH_ALL,
) -> DataFrame:
    """The query: from columns of `RECORDS` to columns of `OUTPUT`. With one state partition it is
    one stage with one task. `until`: see ClusterProcessor.
    """
    used, telemetry = job.connections, job.connections.topics.telemetry
    side_by_side = telemetry.scheme != "file"
    read_again = never_again if side_by_side else partial(record_again, telemetry.folder)
    if job.partitions == 1:
        keyed = records.coalesce(1).withColumn("shard", F.lit(shard_keys(1)[0]))
        read_rows = decoding(
            used.wire,
            used.source,
            side_by_side=side_by_side,
            signing=used.signing,
            read_again=read_again,
        )
    else:
        keyed = records.mapInArrow(
            packer(
                used.wire,
                job.partitions,
                used.source,
                side_by_side=side_by_side,
                signing=used.signing,
            ),
            PACKED,
        )
        read_rows = unpacking(
            used.wire, side_by_side=side_by_side, signing=used.signing, read_again=read_again
        )
    processor = ClusterProcessor(
        engine, used.signing, read_rows, metrics=metrics, forget_policy=forget_policy, until=until
    )
    with own_workers(records.sparkSession, job.checkpoint):
        return keyed.groupBy("shard").transformWithState(processor, OUTPUT, "Update", "None")


@contextmanager
def own_workers(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Gives the query Python workers of its own. Functions with equal environment share workers,
    whose cached stores would be missed.
    """
    environment = spark.sparkContext.environment
    environment["REBALANCER_WORKERS"] = checkpoint
    try:
        yield
    finally:
        del environment["REBALANCER_WORKERS"]

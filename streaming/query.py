"""The Spark query, from the telemetry topic through the stateful operator to the output topics:
starts it, waits for its end, and ends it between two micro-batches.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.kafka.settings import KafkaAccess
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.remembered_and_changed_settings import Guard, WarmStart
from streaming.first_start import with_start
from streaming.outputs.counts_of_micro_batch import counted
from streaming.outputs.output_topics import Output
from streaming.pack_and_decode_records import PACKED, packer, reading, unpacking
from streaming.processor import OUTPUT, PUBLISH_ALL, ClusterProcessor
from streaming.progress import Progress
from streaming.settings import JobSettings
from streaming.sources.files import FileSource, FileTopicSource
from streaming.sources.kafka import kafka_records
from streaming.sources.pulsar import BEGIN, PulsarSource, PulsarTopic
from streaming.state.forget_clusters import ForgetPolicy
from streaming.state.shards import shard_keys
from streaming.worker_process import own_workers

#: Pause between two polls of a query, after one with a new micro-batch and after one without. A
#: poll takes some dozen calls to Java; a micro-batch takes at least 50 ms, and Spark keeps the
#: progress of the last 100.
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
_BATCH_POLL_S = 0.02


@dataclass(frozen=True)
class Run:
    """Settings of one run, and its checkpoint."""

    job: JobSettings
    engine: EngineSettings
    kafka: KafkaAccess
    #: The checkpoint and its guard.
    folder: Path
    guard: Guard
    #: Process the records that exist now, then end.
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
    decisions = decided(
        telemetry, job, run.engine, run.metrics, forget_policy=run.forget_policy, until=until
    )
    rows = output.writer(counted(decisions, with_facts=bool(run.metrics.listen))).outputMode(
        "update"
    )
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
    """Returns the rows of decisions on records: from columns of `RECORDS` to columns of `OUTPUT`.
    With one state partition the query is one stage with one task. `until`: see ClusterProcessor.
    """
    used, telemetry = job.connections, job.connections.topics.telemetry
    side_by_side = telemetry.scheme != "file"
    if job.partitions == 1:
        keyed = records.coalesce(1).withColumn("shard", F.lit(shard_keys(1)[0]))
        read_rows = reading(used.wire, used.source, side_by_side=side_by_side, signing=used.signing)
    else:
        keyed = records.mapInArrow(packer(job.partitions, used.source), PACKED)
        read_rows = unpacking(used.wire, side_by_side=side_by_side, signing=used.signing)
    processor = ClusterProcessor(
        engine, used.signing, read_rows, metrics=metrics, forget_policy=forget_policy, until=until
    )
    with own_workers(records.sparkSession, job.checkpoint):
        return keyed.groupBy("shard").transformWithState(processor, OUTPUT, "Update", "None")


def follow(
    query: StreamingQuery,
    output: Output,
    progress: Progress,
    stop: threading.Event,
    longest_s: float,
) -> PySparkException | None:
    """Waits for the end of the query; returns its error, or None. A stop ends it after the running
    micro-batch; other ends are noticed after a pause of at most `longest_s` seconds.
    """
    pause_s = SHORTEST_PAUSE_S
    try:
        while query.isActive:
            if stop.wait(pause_s):
                _finish_batch(query, output, progress)
                query.stop()
            before = progress.batches
            progress.poll(query)
            pause_s = longest_s
            if progress.batches > before:
                pause_s = SHORTEST_PAUSE_S
        return query.exception()
    except PySparkException as error:
        return error
    finally:
        if query.isActive:
            query.stop()
        progress.poll(query)


def _finish_batch(query: StreamingQuery, output: Output, progress: Progress) -> None:
    """Waits for the running micro-batch. The next one may have begun at once; the stop interrupts
    it, and the next start repeats it.
    """
    progress.poll(query)
    before = progress.batches
    while query.isActive and (
        output.busy or (query.status["isTriggerActive"] and progress.batches == before)
    ):
        time.sleep(_BATCH_POLL_S)
        progress.poll(query)

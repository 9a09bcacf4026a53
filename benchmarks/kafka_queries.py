"""Queries over one telemetry topic on Kafka: the job, and pass-throughs that it is compared with,
each with a checkpoint of its own.

A pass-through reads the topic as the job does and writes every record to another topic: once
without any work of ours, once through one Python stage that decodes every record and throws the
result away. A third query has the job's own plan, with a processor that only decodes.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.pass_through import Batch, Stage, decoding, drained, session_of
from benchmarks.plain import SETTINGS
from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES, kafka_access
from sinks.topics.topic_settings import TopicUri
from streaming.job import run_job
from streaming.outputs.counts_of_micro_batch import counted
from streaming.outputs.output_topics import open_output
from streaming.pack_and_decode_records import ReadRows, reading
from streaming.processor import OUTPUT
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.sources.kafka import client_options, kafka_records, source_options
from streaming.state.store import STATE_KEY, STATE_VALUE
from streaming.worker_process import own_workers
from tests.topic_uris import topic_of

#: The strategy that runs when nothing else is said.
STRATEGY = "avg"
_COLUMNS = "key binary, value binary"


@dataclass(frozen=True)
class Query:
    """A query that goes on where it stopped whenever it is asked to process what has come."""

    name: str
    drain: Callable[[], list[Batch]] = field(repr=False)


def pass_through(name: str, spark: SparkSession, job: JobSettings, output: str | TopicUri) -> Query:
    """Writes what it reads to the topic `output` (URI)."""
    return Query(name, lambda: _drained(spark, job, output, None))


def decoding_pass_through(
    name: str, spark: SparkSession, job: JobSettings, output: str | TopicUri
) -> Query:
    """The same through one Python stage."""
    return Query(name, lambda: _drained(spark, job, output, decoding))


def job_query(name: str, spark: SparkSession, job: JobSettings) -> Query:
    """The job itself."""

    def drain() -> list[Batch]:
        progress: list[BatchProgress] = []
        if (
            run_job(
                job, SETTINGS[STRATEGY], drain=True, on_progress=progress.append, session=spark
            ).stopped_by
            != "drained"
        ):
            raise KeyboardInterrupt
        return [Batch(one.records, one.took_ms) for one in progress]

    return Query(name, drain)


def dropping_query(name: str, spark: SparkSession, job: JobSettings) -> Query:
    """The job's source, stateful operator and sink around a processor that decodes every record,
    touches no state and returns nothing: what Spark's operator costs by itself.
    """

    def drain() -> list[Batch]:
        used = job.connections
        session = session_of(job, spark)
        kafka = kafka_access(used.kafka)
        records = kafka_records(session, used.topics.telemetry, job, kafka)
        keyed = records.coalesce(1).withColumn("shard", F.lit(""))
        dropping = DroppingProcessor(reading(used.wire, used.source, side_by_side=True))
        with own_workers(session, job.checkpoint):
            rows = keyed.groupBy("shard").transformWithState(dropping, OUTPUT, "Update", "None")
        output = open_output(job, kafka, threading.Event(), lambda error: error)
        writer = output.writer(counted(rows)).outputMode("update")
        return drained(writer.option("checkpointLocation", job.checkpoint))

    return Query(name, drain)


class DroppingProcessor(StatefulProcessor):
    """Declares the job's state variable, decodes, and drops."""

    def __init__(self, read_rows: ReadRows) -> None:
        self._read_rows = read_rows

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.getMapState("state", STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for one in self._read_rows(rows):
            one.decoded()
        return iter(())

    def close(self) -> None:
        """Has nothing to close."""


def _drained(
    spark: SparkSession, job: JobSettings, output: str | TopicUri, stage: Stage | None
) -> list[Batch]:
    source, sink = topic_of(job.connections.topics.telemetry), topic_of(output)
    access = kafka_access(job.connections.kafka)
    options = source_options(source, job.max_records_per_batch, access)
    records = (
        session_of(job, spark)
        .readStream.format("kafka")
        .options(**options)
        .load()
        .select("key", "value")
    )
    rows = records if stage is None else records.mapInArrow(stage, _COLUMNS)
    writer = (
        rows.writeStream.format("kafka")
        .options(**client_options(sink, access))
        .option("topic", sink.name)
    )
    writer = writer.option("kafka.max.request.size", str(LARGEST_REQUEST_BYTES)).option(
        "checkpointLocation", job.checkpoint
    )
    return drained(writer)

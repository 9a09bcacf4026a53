"""Queries over one telemetry topic on Kafka: the job, and pass-throughs that it is compared with,
each with a checkpoint of its own.

A pass-through reads the topic as the job does and writes every record to another topic: once
without any work of ours, once through one Python stage that decodes every record and throws the
result away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from benchmarks.pass_through import Batch, Stage, decoding, drained, session_of
from benchmarks.plain import SETTINGS
from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES, kafka_access
from sinks.topics.uri import TopicUri
from streaming.job import run_job
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.sources.kafka import client_options, source_options
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

"""What pass-throughs have in common, wherever they read and write: a session of the job's settings,
a stage that decodes, their batches.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sinks.wire.record_decoding import decode
from streaming.settings import JobSettings
from streaming.spark_session import query_settings

#: A Python stage between source and sink: Arrow batches in, Arrow batches out.
Stage = Callable[[Iterable[Any]], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: records in it, ms from its trigger to its commit, commands that it made."""

    records: int
    took_ms: int
    commands: int = 0


def session_of(job: JobSettings, spark: SparkSession) -> SparkSession:
    """A session beside the given one, with the settings that the job's query has."""
    ours = spark.newSession()
    for key, value in query_settings(job).items():
        ours.conf.set(key, value)
    return ours


def decoding(batches: Iterable[Any]) -> Iterator[Any]:
    """Decodes every record and throws the result away."""
    for batch in batches:
        for value in batch.column("value").to_pylist():
            decode(value, b"")
        yield batch


def drained(writer: DataStreamWriter) -> list[Batch]:
    """Processes all that is there; the micro-batches that took."""
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [
        Batch(progress.numInputRows, progress.durationMs["triggerExecution"])
        for progress in query.recentProgress
    ]

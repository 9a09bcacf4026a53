"""What a micro-batch of Spark costs when it holds one whole pass over a fleet, next to
pass-throughs of the same records.

The pass-throughs read the same topic with the same source and settings into a sink that keeps
nothing: once without any work of ours, and once through a stage that decodes every record and
throws the result away. They are what the job's own cost is compared with.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.figures import Sample, sample, say
from benchmarks.fleet import Fleet
from benchmarks.pass_through import Batch, Stage, decoding, drained, session_of
from benchmarks.plain import SETTINGS
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import Connections, file_topic, file_topic_uri
from streaming.job import run_job
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.sources.files import FileSource, FileTopicSource
from streaming.sources.records import RECORDS
from streaming.spark_session import start_session, stop_session
from tests.topic_uris import topics_of

PASS_THROUGH = "pass-through"
DECODING = "pass-through that decodes"

#: More than any pass has, so that only the number of records bounds a micro-batch.
_BYTES = 2**30
_LINES = 500


@dataclass(frozen=True, slots=True)
class BatchCost:
    """ms per micro-batch, from its trigger to its commit; `query`: a strategy or a pass-through;
    `commands` of the last one.
    """

    brokers: int
    query: str
    batch_ms: Sample
    commands: int


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A Spark with the settings of a long-running job; its log is in `folder`."""
    started = start_session(JobSettings(), folder / "spark.log")
    try:
        yield started
    finally:
        stop_session(started)


def measure(
    spark: SparkSession, fleet: Fleet, warm_up: int, passes: int, folder: Path
) -> Iterator[BatchCost]:
    """One result per pass-through and strategy, from `passes` micro-batches after `warm_up` ones.
    Raises what `run_job` raises.
    """
    topic = folder / "telemetry"
    written(topic, fleet, warm_up + passes)
    job = JobSettings(
        max_records_per_batch=fleet.brokers + 1,
        max_bytes_per_batch=_BYTES,
        connections=Connections(topics=topics_of(telemetry=file_topic_uri(topic))),
    )
    yield _cost(
        fleet, PASS_THROUGH, _pass_through(spark, job, folder / "pass-through", None), warm_up
    )
    yield _cost(fleet, DECODING, _pass_through(spark, job, folder / "decoding", decoding), warm_up)
    for strategy in SETTINGS:
        yield _cost(fleet, strategy, _decided(spark, job, folder / strategy, strategy), warm_up)


def written(topic: Path, fleet: Fleet, passes: int) -> None:
    """Writes passes over the fleet to a file topic."""
    with FileTopicWriter(topic) as writer:
        for number in range(passes):
            lines: list[bytes] = []
            for value in fleet.reports(number):
                lines.append(value)
                if len(lines) == _LINES:
                    writer.append(lines)
                    lines = []
            writer.append([*lines, fleet.sweep(number)])


def _pass_through(
    spark: SparkSession, job: JobSettings, checkpoint: Path, stage: Stage | None
) -> list[Batch]:
    ours = session_of(job, spark)
    ours.dataSource.register(FileTopicSource)
    source = FileSource(
        job.connections.topics.telemetry,
        job.max_records_per_batch,
        job.max_bytes_per_batch,
        job.read_tasks,
        job.connections.wire,
    )
    records = ours.readStream.format(FileTopicSource.name()).options(**source.options()).load()
    rows = records if stage is None else records.mapInArrow(stage, RECORDS)
    return drained(rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)))


def _decided(spark: SparkSession, job: JobSettings, folder: Path, strategy: str) -> list[Batch]:
    outputs = {
        name: file_topic(folder / name) for name in ("commands", "rounds", "rejected", "outcomes")
    }
    topics = replace(job.connections.topics, **outputs)
    progress: list[BatchProgress] = []
    checkpoint = str(folder / "checkpoint")
    asked = replace(job, checkpoint=checkpoint, connections=replace(job.connections, topics=topics))
    leave_if_stopped(
        run_job(
            asked, SETTINGS[strategy], drain=True, on_progress=progress.append, session=spark
        ).stopped_by
    )
    return [Batch(one.records, one.took_ms, one.written.commands) for one in progress]


def leave_if_stopped(stopped_by: str) -> None:
    """The job takes SIGTERM and Ctrl-C as a wish to stop and returns; the measurement was meant.
    Raises SystemExit.
    """
    if stopped_by in signal.Signals.__members__:
        say(f"stopped ({stopped_by}): this size was not measured to its end")
        raise SystemExit(128 + signal.Signals[stopped_by])


def _cost(fleet: Fleet, query: str, batches: list[Batch], warm_up: int) -> BatchCost:
    whole = [batch for batch in batches if batch.records == fleet.brokers + 1]
    if len(whole) != len(batches) or len(whole) <= warm_up:
        counts = ", ".join(str(batch.records) for batch in batches)
        raise AssertionError(
            f"every micro-batch should hold one pass of {fleet.brokers + 1} records, these "
            f"hold {counts or 'nothing'}"
        )
    return BatchCost(
        fleet.brokers,
        query,
        sample([batch.took_ms for batch in whole[warm_up:]]),
        whole[-1].commands,
    )

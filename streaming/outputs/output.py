"""The one sink of the job: takes the rows of a micro-batch to the topics of commands, rounds and rejected records.

At least once: when the job dies between a write and the commit of its micro-batch, the batch is repeated and the same bytes, with
the same ids, are written again. Nothing in a row depends on when or how often it was made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.uri import TopicUri, parse_topic
from strategies.errors import RebalancerError
from streaming.outputs.kafka import KafkaOutput
from streaming.outputs.output_counts import KINDS
from streaming.outputs.pulsar import PulsarTopics
from streaming.settings import JobSettings


class Output(Protocol):
    """Where a query's rows go."""

    @property
    def busy(self) -> bool:
        """Rows are being published, which must not be interrupted."""
        ...

    def explained(self, error: Exception) -> Exception | None:
        """The error of ours behind one of the query's, where the output knows more than Spark passes on."""
        ...

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """What takes the rows of every micro-batch to the topics, all at once; the micro-batch ends when all are safe."""
        ...

    def close(self) -> None:
        """Lets go of the topics."""
        ...


class JobStopping(RebalancerError):
    """A micro-batch was not published because the job is stopping; it will be the first one after the restart."""


class Appender(Protocol):
    """Topics that we write to ourselves."""

    def append(self, rows: Sequence[Any]) -> None:
        """Returns when all rows (of `processor.OUTPUT`) are safe."""
        ...

    def close(self) -> None:
        """Lets go of the topics."""
        ...


class CollectedOutput:
    """Rows come to the driver, which appends them. `stop` is looked at before rows are published, never in the middle of it."""

    def __init__(self, topics: Appender, stop: threading.Event, explained: Callable[[Exception], Exception]) -> None:
        """`explained`: makes an error of ours out of one of Spark's."""
        self._topics = topics
        self._explained = explained
        self._stop = stop
        self._busy = False
        self._error: Exception | None = None

    @property
    def busy(self) -> bool:
        """See Output."""
        return self._busy

    def explained(self, error: Exception) -> Exception | None:
        """See Output. What went wrong while publishing, as it was."""
        return self._error

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """See Output."""
        return rows.writeStream.foreachBatch(self._publish)

    def close(self) -> None:
        """See Output."""
        self._topics.close()

    def _publish(self, rows: DataFrame, _batch: int) -> None:
        if self._stop.is_set():
            raise JobStopping("the job is stopping: this micro-batch is left for the next start")
        self._busy = True
        self._error = None
        try:
            self._topics.append(rows.collect())
        except Exception as error:
            self._error = self._explained(error)
            raise
        finally:
            self._busy = False


class FileTopics:
    """Output topics that are folders. What was appended is on the disk before Spark notes that the micro-batch is done."""

    def __init__(self, topics: Mapping[str, TopicUri], segment_bytes: int, fsync: Callable[[int], None] = os.fsync) -> None:
        self._writers = {kind: FileTopicWriter(topic.folder, segment_bytes, sync=True, fsync=fsync) for kind, topic in topics.items()}

    def append(self, rows: Sequence[Any]) -> None:
        """See Appender. Raises SinkError, PublishTimeout."""
        found = by_kind(rows)
        for kind in KINDS:
            if found[kind]:
                self._writers[kind].append(found[kind])

    def close(self) -> None:
        """See Appender."""
        for writer in self._writers.values():
            writer.close()


def open_output(job: JobSettings, stop: threading.Event, explained: Callable[[Exception], Exception]) -> Output:
    """The output that the topics' URIs name; all of them are of one kind (`check_job`)."""
    uris = {kind: parse_topic(getattr(job.topics, kind)) for kind in KINDS}
    if uris["commands"].scheme == "kafka":
        return KafkaOutput(uris, kafka_access(job.kafka))
    topics = FileTopics(uris, job.segment_bytes) if uris["commands"].scheme == "file" else PulsarTopics(uris, job.pulsar)
    return CollectedOutput(topics, stop, explained)


def by_kind(rows: Sequence[Any]) -> Mapping[str, list[bytes]]:
    """Values per kind; clusters in order of their names, each cluster's rows in the order they were folded."""
    ordered = sorted(rows, key=lambda row: (row.key, row.seq))
    return {kind: [bytes(row.value) for row in ordered if row.kind == kind] for kind in KINDS}

"""The sink of the job: writes the rows of a micro-batch to the topics of commands, rounds and
rejected records.

At least once: if the job dies between a write and the commit of its micro-batch, the batch is
repeated, and the same bytes with the same ids are written again. No row depends on when or how
often it is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.kafka.settings import KafkaAccess
from sinks.topics.uri import TopicUri
from strategies.errors import RebalancerError
from streaming.outputs.kafka import KafkaOutput
from streaming.outputs.output_counts import KINDS
from streaming.outputs.pulsar import PulsarTopics
from streaming.settings import JobSettings


class Output(Protocol):
    """Destination of a query's rows."""

    @property
    def busy(self) -> bool:
        """Whether rows are being published, which must not be interrupted."""

    def explained(self, error: Exception) -> Exception | None:
        """Our error behind an error of the query, if the output knows more than Spark reports."""

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """The writer of the query, which publishes the rows of each micro-batch; the micro-batch
        ends when all are stored.
        """

    def close(self) -> None:
        """Closes the topics."""


class JobStopping(RebalancerError):
    """A micro-batch was not published because the job is stopping; it is the first one after the
    restart.
    """


class Appender(Protocol):
    """Topics that the driver writes."""

    def append(self, rows: Sequence[Any]) -> None:
        """Returns when all rows (of `processor.OUTPUT`) are stored."""

    def close(self) -> None:
        """Closes the topics."""


class CollectedOutput:
    """Collects rows on the driver, which appends them. `stop` is checked before rows are published,
    never in between.
    """

    def __init__(
        self, topics: Appender, stop: threading.Event, explained: Callable[[Exception], Exception]
    ) -> None:
        """`explained`: converts an error of Spark to ours."""
        self._topics = topics
        self._explained = explained
        self._stop = stop
        #: See Output.
        self.busy = False
        self._error: Exception | None = None

    def explained(self, error: Exception) -> Exception | None:
        """See Output. The original error of publishing."""
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
        self.busy = True
        self._error = None
        try:
            self._topics.append(rows.collect())
        except Exception as error:
            self._error = self._explained(error)
            raise
        finally:
            self.busy = False


class FileTopics:
    """Output topics in folders. Rows are on the disk before Spark commits the micro-batch."""

    def __init__(
        self,
        topics: Mapping[str, TopicUri],
        retention_ms: int | None = None,
        *,
        fsync: Callable[[int], None] = os.fsync,
    ) -> None:
        self._writers = {
            kind: FileTopicWriter(topic.folder, sync=True, retention_ms=retention_ms, fsync=fsync)
            for kind, topic in topics.items()
        }

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


def open_output(
    job: JobSettings,
    kafka: KafkaAccess,
    stop: threading.Event,
    explained: Callable[[Exception], Exception],
) -> Output:
    """The output for the topics' URIs; all are of one kind (`check_job`)."""
    uris: dict[str, TopicUri] = {kind: getattr(job.connections.topics, kind) for kind in KINDS}
    if uris["commands"].scheme == "kafka":
        return KafkaOutput(uris, kafka)
    topics = (
        FileTopics(uris, job.connections.files.retention_ms)
        if uris["commands"].scheme == "file"
        else PulsarTopics(uris, job.connections.pulsar)
    )
    return CollectedOutput(topics, stop, explained)


def by_kind(rows: Sequence[Any]) -> Mapping[str, list[bytes]]:
    """Values by kind; clusters sorted by name, the rows of each cluster in fold order."""
    ordered = sorted(rows, key=lambda row: (row.key, row.seq))
    return {kind: [bytes(row.value) for row in ordered if row.kind == kind] for kind in KINDS}

"""The one sink of the job: takes the rows of a micro-batch to the topics of commands, rounds and rejected records.

At least once: when the job dies between a write and the commit of its micro-batch, the batch is repeated and the same bytes, with
the same ids, are written again. Nothing in a row depends on when or how often it was made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sinks.file_topic import FileTopicWriter
from sinks.kafka_settings import kafka_access
from sinks.topic_uri import TopicUri, parse_topic
from strategies.errors import RebalancerError
from streaming.pulsar_output import PulsarOutput
from streaming.settings import JobSettings
from streaming.written import KINDS


class Refused(RebalancerError):
    """A micro-batch was not begun because the job is stopping; it will be the first one after the restart."""


class Output(Protocol):
    """Where rows go; all at once."""

    def write(self, rows: Any) -> None:
        """Returns when all rows are safe."""
        ...

    def close(self) -> None:
        """Lets go of the topics."""
        ...


class OutputTopics:
    """Called by Spark with every micro-batch. `stop` is looked at before a batch begins, never in the middle of one."""

    def __init__(self, output: Output, stop: threading.Event, explained: Callable[[Exception], Exception]) -> None:
        """`explained`: makes an error of ours out of one of Spark's."""
        self._output = output
        self._explained = explained
        self._stop = stop
        self._busy = False
        self._batches = 0
        self._error: Exception | None = None

    @property
    def busy(self) -> bool:
        """A micro-batch is being worked on."""
        return self._busy

    @property
    def batches(self) -> int:
        """How many micro-batches were published since the start."""
        return self._batches

    @property
    def error(self) -> Exception | None:
        """What went wrong while appending, as it was; Spark passes on only its text."""
        return self._error

    def __call__(self, rows: Any, batch: int) -> None:
        if self._stop.is_set():
            raise Refused("the job is stopping: this micro-batch is left for the next start")
        self._busy = True
        self._error = None
        try:
            self._output.write(rows)
            self._batches += 1
        except Exception as error:
            self._error = self._explained(error)
            raise
        finally:
            self._busy = False

    def close(self) -> None:
        self._output.close()


class FileOutput:
    """Output topics that are folders: rows are collected and appended, topic by topic."""

    def __init__(self, topics: Mapping[str, TopicUri], segment_bytes: int) -> None:
        self._writers = {kind: FileTopicWriter(topic.folder, segment_bytes) for kind, topic in topics.items()}

    def write(self, rows: Any) -> None:
        """See Output. Raises SinkError, PublishTimeout."""
        found = by_kind(rows.collect())
        for kind in KINDS:
            if found[kind]:
                self._writers[kind].append(found[kind])

    def close(self) -> None:
        """See Output."""
        for writer in self._writers.values():
            writer.close()


def open_output(job: JobSettings) -> Output:
    """The output that the topics' URIs name; all of them are of one kind (`check_job`)."""
    topics = {"commands": job.topics.commands, "rounds": job.topics.rounds, "rejected": job.topics.rejected}
    uris = {kind: parse_topic(uri) for kind, uri in topics.items()}
    if uris["commands"].scheme == "file":
        return FileOutput(uris, job.segment_bytes)
    if uris["commands"].scheme == "pulsar":
        return PulsarOutput(uris, job.pulsar)
    from streaming.kafka_output import KafkaOutput

    return KafkaOutput(uris, kafka_access(job.kafka))


def by_kind(rows: Sequence[Any]) -> Mapping[str, list[bytes]]:
    """Values per kind; clusters in order of their names, each cluster's rows in the order they were folded."""
    ordered = sorted(rows, key=lambda row: (row.key, row.seq))
    return {kind: [bytes(row.value) for row in ordered if row.kind == kind] for kind in KINDS}

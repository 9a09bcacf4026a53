"""The one sink of the job: takes the rows of a micro-batch and appends them to the topics of commands, rounds and rejected records.

At least once: when the job dies between an append and the commit of its micro-batch, the batch is repeated and the same bytes, with
the same ids, are appended again. Nothing in a row depends on when or how often it was made.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sinks.file_topic import FileTopicWriter
from sinks.topic_uri import parse_topic
from strategies.errors import RebalancerError
from streaming.settings import JobSettings

#: In this order, so that whoever sees a round record finds its commands.
KINDS = ("commands", "rounds", "rejected")


class Refused(RebalancerError):
    """A micro-batch was not begun because the job is stopping; it will be the first one after the restart."""


@dataclass(frozen=True, slots=True)
class Written:
    """How many records of each kind one micro-batch, or the whole run, has published."""

    commands: int = 0
    rounds: int = 0
    rejected: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.commands + other.commands, self.rounds + other.rounds, self.rejected + other.rejected)


class OutputTopics:
    """Called by Spark with every micro-batch. `stop` is looked at before a batch begins, never in the middle of one."""

    def __init__(self, job: JobSettings, stop: threading.Event) -> None:
        uris = {"commands": job.topics.commands, "rounds": job.topics.rounds, "rejected": job.topics.rejected}
        self._writers = {kind: FileTopicWriter(parse_topic(uri).folder, job.segment_bytes) for kind, uri in uris.items()}
        self._stop = stop
        self._recent: dict[int, Written] = {}
        self._total = Written()
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

    @property
    def total(self) -> Written:
        return self._total

    def take(self, batch: int) -> Written:
        """What a micro-batch published; asked once, by whoever reports progress."""
        return self._recent.pop(batch, Written())

    def __call__(self, rows: Any, batch: int) -> None:
        if self._stop.is_set():
            raise Refused("the job is stopping: this micro-batch is left for the next start")
        self._busy = True
        try:
            self._publish(by_kind(rows.collect()), batch)
        except RebalancerError as error:
            self._error = error
            raise
        finally:
            self._busy = False

    def _publish(self, found: Mapping[str, list[bytes]], batch: int) -> None:
        for kind in KINDS:
            if found[kind]:
                self._writers[kind].append(found[kind])
        written = Written(*(len(found[kind]) for kind in KINDS))
        self._total += written
        self._recent[batch] = written
        self._batches += 1

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def by_kind(rows: Sequence[Any]) -> Mapping[str, list[bytes]]:
    """Values per kind; clusters in order of their names, each cluster's rows in the order they were folded."""
    ordered = sorted(rows, key=lambda row: (row.key, row.seq))
    return {kind: [bytes(row.value) for row in ordered if row.kind == kind] for kind in KINDS}

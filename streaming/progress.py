"""Reports the progress of the streaming query: duration, backlog and published records per
micro-batch; writes the progress file.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from strategies.errors import SinkError
from streaming.job_files import cut
from streaming.outputs.counts_of_micro_batch import BatchFacts, Written, observed

OnProgress = Callable[["BatchProgress"], None]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch."""

    #: Its number.
    batch: int
    started_at: str
    #: Number of its telemetry records.
    records: int
    #: Number of complete records after it in the topic; None if the source does not count them.
    behind_records: int | None
    #: Duration from trigger to commit.
    took_ms: int
    #: Phase as Spark names it → its duration; `addBatch` reads, folds and publishes.
    phases_ms: Mapping[str, int]
    #: Number of entries of all state variables.
    state_rows: int
    #: Numbers of published records.
    written: Written
    #: Memory of the state store.
    state_memory_bytes: int = 0
    #: Facts for metrics; empty without metrics.
    facts: tuple[BatchFacts, ...] = ()
    #: A warm start has not ended, so that nothing of these records is published.
    warming: bool = False

    def line(self) -> str:
        """Returns one line of text for standard error."""
        behind = "" if self.behind_records is None else f", {self.behind_records:,} behind"
        phases = " ".join(
            f"{name} {took}"
            for name, took in sorted(self.phases_ms.items(), key=lambda item: -item[1])
            if took
        )
        written = self.written
        return (
            f"batch {self.batch}: {self.records:,} records in {self.took_ms} ms "
            f"({phases}){behind}; {written.rounds} rounds, "
            f"{written.commands} commands, {written.rejected} rejected; {self.state_rows:,} "
            f"state rows{'; warming' if self.warming else ''}"
        )

    def fields(self) -> dict[str, Any]:
        """Returns the figures for log lines and the progress file; leaves out those of metrics."""
        fields = asdict(replace(self, facts=()))
        del fields["facts"], fields["state_memory_bytes"]
        if not self.warming:
            del fields["warming"]
        return fields

    def json(self) -> str:
        """Returns one JSON line for the progress file."""
        return json.dumps({"v": 1, **self.fields()}, separators=(",", ":"))


class Progress:
    """Reports each micro-batch with records once, also of a query that is restarted.

    Polls instead of listening, because a listener decodes Spark's event with many calls to Java, in
    parallel to the next micro-batch.
    """

    def __init__(
        self,
        report: OnProgress,
        on_poll: Callable[[], None] = lambda: None,
        until: Callable[[str | None], bool] | None = None,
        works: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_poll`: called at the begin of each poll. `until`: returns True if a warm start ends
        with a micro-batch of this end offset, as Spark reports it; None without a warm start.
        `works`: called when a query has finished a micro-batch, or found nothing to do.
        """
        self._report = report
        self.on_poll = on_poll
        self._until = until
        self._works = works
        #: Number of committed micro-batches.
        self.batches = 0
        #: Number of published records.
        self.total = Written()
        self._newest: int | None = None
        # An idle query reports itself under the number of its next micro-batch.
        self._looked_at: tuple[int, str] | None = None

    def poll(self, query: StreamingQuery) -> None:
        """Reports micro-batches committed since the last call. Call it at least once in a hundred
        micro-batches.
        """
        self.on_poll()
        newest = query.lastProgress
        if newest is None or (newest.batchId, newest.timestamp) == self._looked_at:
            return
        self._looked_at = newest.batchId, newest.timestamp
        self._works()
        follows = (
            newest.numInputRows > 0
            and self._newest is not None
            and newest.batchId == self._newest + 1
        )
        for progress in [newest] if follows else query.recentProgress:
            if progress.numInputRows > 0 and (
                self._newest is None or progress.batchId > self._newest
            ):
                self._take(progress)

    def _take(self, progress: StreamingQueryProgress) -> None:
        self._newest = progress.batchId
        self.batches += 1
        done = replace(batch_progress(progress), warming=self._until is not None)
        self.total += done.written
        self._report(done)
        if self._until is not None and self._until(progress.sources[0].endOffset):
            self._until = None


def batch_progress(progress: StreamingQueryProgress) -> BatchProgress:
    """Converts Spark's StreamingQueryProgress."""
    phases = dict(progress.durationMs)
    written, facts = observed(progress)
    return BatchProgress(
        batch=progress.batchId,
        started_at=progress.timestamp,
        records=progress.numInputRows,
        behind_records=_behind(progress.sources[0]),
        took_ms=phases.pop("triggerExecution", 0),
        phases_ms=phases,
        state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
        written=written,
        state_memory_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
        facts=facts,
    )


def progress_file(path: Path, most_bytes: int) -> OnProgress:
    """Returns a function that appends one JSON line per micro-batch to a file, and moves the
    content of a file of `most_bytes` to an older one. Raises SinkError if the file cannot be
    opened.
    """
    try:
        path.open("ab").close()
    except OSError as error:
        raise SinkError(
            f"{path} cannot be written ({error.strerror}); name another job.progress_file"
        ) from error

    def write(progress: BatchProgress) -> None:
        with suppress(OSError):  # a full disk costs lines, not the job
            # Opened for each line: another program may have renamed the file.
            with path.open("ab") as file:
                file.write(f"{progress.json()}\n".encode())
            cut(path, most_bytes)

    return write


def _behind(source: Any) -> int | None:
    try:
        latest, end = json.loads(source.latestOffset), json.loads(source.endOffset)
        if "records" in latest:
            return max(0, int(latest["records"]) - int(end["records"]))
        if all(isinstance(place, list) for place in latest.values()):
            return sum(int(place[-1]) - int(end[number][-1]) for number, place in latest.items())
        return sum(
            int(offset) - int(end[topic][number])
            for topic, offsets in latest.items()
            for number, offset in offsets.items()
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        return None

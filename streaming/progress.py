"""Progress of the streaming query: duration, backlog and published records per micro-batch; writes
the progress file.
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
from streaming.disk_use import cut
from streaming.outputs.facts import BatchFacts, Written, observed

OnProgress = Callable[["BatchProgress"], None]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch. `took_ms`: from trigger to commit; `phases_ms`: by Spark's phases
    (`addBatch` is the work).

    `records`: telemetry records in it; `behind_records`: complete records after it in the topic,
    None if the source does not count them; `warming`: a warm start has not ended, so that nothing
    of its records is published. `state_rows`: entries of all state variables;
    `state_memory_bytes`: memory of the state store. `facts`: only with metrics.
    """

    batch: int
    started_at: str
    records: int
    behind_records: int | None
    took_ms: int
    phases_ms: Mapping[str, int]
    state_rows: int
    written: Written
    state_memory_bytes: int = 0
    facts: tuple[BatchFacts, ...] = ()
    warming: bool = False

    def line(self) -> str:
        """One line of text for standard error."""
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
        """The figures for log lines and the progress file; not those that only metrics have."""
        fields = asdict(replace(self, facts=()))
        del fields["facts"], fields["state_memory_bytes"]
        if not self.warming:
            del fields["warming"]
        return fields

    def json(self) -> str:
        """One JSON line for the progress file."""
        return json.dumps({"v": 1, **self.fields()}, separators=(",", ":"))


class Progress:
    """Micro-batches of a query that may be restarted, each reported once; those without records are
    not reported.

    Polls instead of listening: a listener decodes Spark's event with many calls to Java, in
    parallel to the next micro-batch.
    """

    def __init__(
        self,
        report: OnProgress,
        on_poll: Callable[[], None] = lambda: None,
        until: Callable[[str | None], bool] | None = None,
        works: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_poll`: called at the begin of each poll. `until`: whether a warm start ends with a
        micro-batch of this end offset, as Spark reports it; None: there is none. `works`: called
        when a query has finished a micro-batch, or found nothing to do.
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
    """Appends one JSON line per micro-batch; the content of a file of `most_bytes` goes to an older
    one (see disk_use.py). Raises SinkError if the file cannot be opened at the start.
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

"""Follows the streaming query: what every micro-batch took, how far it is behind, what it published; and the progress file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from strategies.errors import SinkError
from streaming.written import Written, observed

OnProgress = Callable[["BatchProgress"], None]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch. `took_ms`: from its trigger to its commit; `phases_ms`: the same by Spark's phases (`addBatch` is the work).

    `records`: telemetry records in it; `behind_records`: complete records in the topic after it; None if the source does not know.
    `state_rows`: entries of all state variables.
    """

    batch: int
    started_at: str
    records: int
    behind_records: int | None
    took_ms: int
    phases_ms: Mapping[str, int]
    state_rows: int
    written: Written

    def line(self) -> str:
        """For people: one line on standard error."""
        behind = "" if self.behind_records is None else f", {self.behind_records:,} behind"
        phases = " ".join(f"{name} {took}" for name, took in sorted(self.phases_ms.items(), key=lambda item: -item[1]) if took)
        written = self.written
        return (
            f"batch {self.batch}: {self.records:,} records in {self.took_ms} ms ({phases}){behind}; {written.rounds} rounds, "
            f"{written.commands} commands, {written.rejected} rejected; {self.state_rows:,} state rows"
        )

    def json(self) -> str:
        """For programs: one line of the progress file."""
        return json.dumps({"v": 1, **asdict(self)}, separators=(",", ":"))


class ProgressListener(StreamingQueryListener):
    """Turns Spark's progress events into BatchProgress; micro-batches without records are not reported."""

    def __init__(self, report: OnProgress) -> None:
        self._report = report
        self._total = Written()
        self._ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        self._ended.clear()

    def onQueryProgress(self, event: Any) -> None:
        if event.progress.numInputRows > 0:
            progress = batch_progress(event.progress)
            self._total += progress.written
            self._report(progress)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._ended.set()

    @property
    def total(self) -> Written:
        """What all reported micro-batches have published."""
        return self._total

    def wait(self, seconds: float) -> None:
        """Events come late: waits until the last one is through."""
        self._ended.wait(seconds)


def batch_progress(progress: Any) -> BatchProgress:
    """From Spark's StreamingQueryProgress."""
    phases = dict(progress.durationMs)
    return BatchProgress(
        batch=progress.batchId,
        started_at=progress.timestamp,
        records=progress.numInputRows,
        behind_records=_behind(progress.sources[0]),
        took_ms=phases.pop("triggerExecution", 0),
        phases_ms=phases,
        state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
        written=observed(progress),
    )


@contextmanager
def progress_file(path: Path) -> Iterator[OnProgress]:
    """Appends one JSON line per micro-batch. Raises SinkError if the file cannot be opened."""
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise SinkError(f"{path} cannot be written ({error.strerror}); name another job.progress_file") from error

    def write(progress: BatchProgress) -> None:
        file.write(progress.json() + "\n")
        file.flush()

    with file:
        yield write


def _behind(source: Any) -> int | None:
    try:
        latest, end = json.loads(source.latestOffset), json.loads(source.endOffset)
        if "records" in latest:
            return max(0, int(latest["records"]) - int(end["records"]))
        if all(isinstance(place, list) for place in latest.values()):
            return sum(int(place[-1]) - int(end[number][-1]) for number, place in latest.items())
        return sum(int(offset) - int(end[topic][number]) for topic, offsets in latest.items() for number, offset in offsets.items())
    except (TypeError, ValueError, KeyError, AttributeError):
        return None

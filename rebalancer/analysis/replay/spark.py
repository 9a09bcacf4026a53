"""The same recording through the streaming job: into a file topic, through Spark, and the rows back from the output topics."""

from __future__ import annotations

import tempfile
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sinks.stopping import stopping
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.topics.readable import Placed
from sinks.topics.settings import Topics
from sinks.topics.uri import file_topic
from sinks.wire.codec import cluster_of, decode_rejected, encode_rejected
from sinks.wire.limits import WireLimits
from sinks.wire.origin import Origin
from sinks.wire.outputs import OutputRow
from sinks.wire.position import Position
from sinks.wire.raw import SourceSettings
from sinks.wire.signing import SigningSettings
from strategies.engine import EngineSettings
from strategies.errors import WireError
from streaming.settings import JobSettings

if TYPE_CHECKING:
    from streaming.job import JobResult
    from streaming.progress import BatchProgress

#: So large that a recording stays one segment, and offsets are those of the recording.
_ONE_SEGMENT = 2**62
_LINES_AT_ONCE = 256
_TELL_EVERY_S = 5.0


def decide(
    records: Iterable[Placed],
    engine: EngineSettings,
    job: JobSettings,
    say: Callable[[str], None],
    *,
    run: Callable[..., JobResult] | None = None,
) -> Iterator[list[OutputRow]]:
    """All rows, after the job has seen all records. Needs Java and about as much free disk as the uncompressed recording.

    `run`: what runs the job, `run_job` if not given. Raises what `run_job` raises, and KeyboardInterrupt when it was stopped by a signal.
    """
    with stopping() as stop, tempfile.TemporaryDirectory(prefix="rebalancer-replay-") as scratch:
        folder = Path(scratch)
        placed = _placed(job, folder)
        places = _fill(folder / "telemetry", records)
        say(f"{len(places)} records in a temporary topic, starting Spark")
        result = (run or _run_job())(placed, engine, drain=True, on_progress=_sparing(say), stop=stop)
        if stop.is_set() or result.stopped_by != "drained":
            raise KeyboardInterrupt
        yield _read(folder, places, job.wire)


def _run_job() -> Callable[..., JobResult]:
    from streaming.job import run_job

    return run_job


def _sparing(say: Callable[[str], None]) -> Callable[[BatchProgress], None]:
    """Tells a micro-batch now and then: a replay may have thousands."""
    told = time.monotonic()

    def tell(progress: BatchProgress) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_EVERY_S:
            told = time.monotonic()
            say(progress.line())

    return tell


def _placed(job: JobSettings, folder: Path) -> JobSettings:
    """The job's settings with everything it reads and writes below a scratch folder; what a replay decides is never signed."""
    topics = Topics(**{name: file_topic(folder / name) for name in ("telemetry", "commands", "rounds", "rejected", "outcomes")})
    # Records have our envelope by now, wherever they come from.
    ours = replace(job, topics=topics, source=SourceSettings(), signing=SigningSettings())
    return replace(ours, checkpoint=str(folder / "checkpoint"), trigger_ms=0, progress_file="")


class _Places:
    """Where the records of the temporary topic come from: three integers per record."""

    def __init__(self) -> None:
        self._topic = ""
        self._bytes, self._partitions, self._offsets = array("q"), array("q"), array("q")
        self._end = 0

    def __len__(self) -> int:
        return len(self._bytes)

    def add(self, record: Placed) -> None:
        """The next record."""
        self._topic, partition, offset = record.position
        self._bytes.append(self._end)
        self._partitions.append(partition)
        self._offsets.append(offset)
        self._end += len(record.value) + 1

    def of(self, byte: int) -> Position:
        """Of the record at this byte of the temporary topic."""
        number = bisect_left(self._bytes, byte)
        return Position(self._topic, self._partitions[number], self._offsets[number])


def _fill(folder: Path, records: Iterable[Placed]) -> _Places:
    places, rest = _Places(), iter(records)
    with FileTopicWriter(folder, _ONE_SEGMENT) as writer:
        while some := list(islice(rest, _LINES_AT_ONCE)):
            writer.append([record.value for record in some])
            for record in some:
                places.add(record)
    return places


def _read(folder: Path, places: _Places, limits: WireLimits) -> list[OutputRow]:
    rows = [OutputRow("commands", cluster_of(value), value) for value in _values(folder / "commands", limits)]
    rows += [OutputRow("rounds", cluster_of(value), value) for value in _values(folder / "rounds", limits)]
    return rows + [_renamed(value, places) for value in _values(folder / "rejected", limits)]


def _values(folder: Path, limits: WireLimits) -> list[bytes]:
    """Outputs are our own: they may be larger than what is accepted from others."""
    wide = replace(limits, max_record_bytes=2**40)
    return [record.value for record in FileTopicReader(folder, limits=wide).read()[0]]


def _renamed(value: bytes, places: _Places) -> OutputRow:
    """A rejected row that names where the record comes from instead of the temporary topic."""
    row = decode_rejected(value)
    origin = Origin(places.of(row.offset), row.original, row.size)
    cluster = row.cluster or ""
    return OutputRow("rejected", cluster, encode_rejected(WireError(row.code, row.text), origin, cluster))

"""Replay through the streaming job: writes the recording to a file topic, runs Spark, and reads the
rows of the output topics.
"""

import tempfile
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sinks.graceful_stop import stopping
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter, TopicRecord
from sinks.topics.topic_settings import Topics, file_topic
from sinks.wire.event_to_topic_rows import OutputRow, encode_rejected
from sinks.wire.raw_broker_reports import SourceSettings
from sinks.wire.record_decoding import Origin, Position, WireLimits, cluster_of, decode_rejected
from strategies.errors import WireError
from strategies.fold.engine import EngineSettings
from streaming.settings import JobSettings

if TYPE_CHECKING:
    from streaming.job import JobResult
    from streaming.progress import BatchProgress

#: Segment size that exceeds any recording, so that offsets are those of the recording.
_ONE_SEGMENT = 2**62
_LINES_AT_ONCE = 256
_SAY_EVERY_S = 5.0


def decide(
    records: Iterable[TopicRecord],
    engine: EngineSettings,
    job: JobSettings,
    say: Callable[[str], None],
    *,
    run: "Callable[..., JobResult] | None" = None,
) -> Iterator[list[OutputRow]]:
    """All rows, after the job has processed all records. Needs Java, and free disk space of about
    the uncompressed recording.

    `run`: runs the job, by default `run_job`. Raises what `run_job` raises, and KeyboardInterrupt
    after a signal.
    """
    from streaming.job import run_job

    with stopping() as stop, tempfile.TemporaryDirectory(prefix="rebalancer-replay-") as scratch:
        folder = Path(scratch)
        placed = _placed(job, folder)
        places = _fill(folder / "telemetry", records)
        say(f"{len(places)} records in a temporary topic, starting Spark")
        result = (run or run_job)(placed, engine, drain=True, on_progress=_sparing(say), stop=stop)
        if stop.is_set() or result.stopped_by != "drained":
            raise KeyboardInterrupt
        yield _read(folder, places, job.connections.wire)


def _sparing(say: Callable[[str], None]) -> "Callable[[BatchProgress], None]":
    """Reports a micro-batch at most once per interval: a replay may have thousands."""
    last = time.monotonic()

    def say_some(progress: "BatchProgress") -> None:
        nonlocal last
        if time.monotonic() - last >= _SAY_EVERY_S:
            last = time.monotonic()
            say(progress.line())

    return say_some


def _placed(job: JobSettings, folder: Path) -> JobSettings:
    """The job's settings with all its topics and its checkpoint below a scratch folder. Intents
    must be signed as there; commands and rounds are not signed.
    """
    topics = Topics(
        **{
            name: file_topic(folder / name)
            for name in ("telemetry", "commands", "rounds", "rejected", "outcomes")
        }
    )
    signing = replace(job.connections.signing, key_file="", previous_key_file="")
    # All records have our envelope here, whatever their source is.
    ours = replace(job.connections, topics=topics, source=SourceSettings(), signing=signing)
    return replace(
        job,
        connections=ours,
        checkpoint=str(folder / "checkpoint"),
        trigger_ms=0,
        progress_file="",
    )


class _Places:
    """Original positions of the records of the temporary topic, three integers per record."""

    def __init__(self) -> None:
        self._topic = ""
        self._bytes, self._partitions, self._offsets = array("q"), array("q"), array("q")
        self._end = 0

    def __len__(self) -> int:
        return len(self._bytes)

    def add(self, record: TopicRecord) -> None:
        """Adds the next record."""
        self._topic, partition, offset = record.position
        self._bytes.append(self._end)
        self._partitions.append(partition)
        self._offsets.append(offset)
        self._end += len(record.value) + 1

    def of(self, byte: int) -> Position:
        """Original position of the record at this byte of the temporary topic."""
        number = bisect_left(self._bytes, byte)
        return Position(self._topic, self._partitions[number], self._offsets[number])


def _fill(folder: Path, records: Iterable[TopicRecord]) -> _Places:
    places, rest = _Places(), iter(records)
    with FileTopicWriter(folder, _ONE_SEGMENT) as writer:
        while some := list(islice(rest, _LINES_AT_ONCE)):
            writer.append([record.value for record in some])
            for record in some:
                places.add(record)
    return places


def _read(folder: Path, places: _Places, limits: WireLimits) -> list[OutputRow]:
    kinds: tuple[Literal["commands", "rounds"], ...] = ("commands", "rounds")
    return [
        *(
            OutputRow(kind, cluster_of(value), value)
            for kind in kinds
            for value in _values(folder / kind, limits)
        ),
        *(_renamed(value, places) for value in _values(folder / "rejected", limits)),
    ]


def _values(folder: Path, limits: WireLimits) -> list[bytes]:
    """Values of an output topic. Our own records may exceed the size limit of input records."""
    wide = replace(limits, max_record_bytes=2**40)
    return [record.value for record in FileTopicReader(folder, limits=wide).read()[0]]


def _renamed(value: bytes, places: _Places) -> OutputRow:
    """The row with the record's original position instead of that in the temporary topic."""
    row = decode_rejected(value)
    origin = Origin(places.of(row.offset), row.original, row.size)
    cluster = row.cluster or ""
    return OutputRow(
        "rejected", cluster, encode_rejected(WireError(row.code, row.text), origin, cluster)
    )

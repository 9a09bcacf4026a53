"""Copies a topic into a recording: its present records, or new records until a signal or an idle
timeout. Reads topics and recordings alike, as records with positions.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sinks.graceful_stop import Stop
from sinks.printable import put
from sinks.recordings.columnar import ENDING, ColumnarRecording
from sinks.recordings.json_lines import Recording, check_use, open_recording
from sinks.topics.open_topics import Reader, Skipped, TopicRecord, open_reader, readable
from sinks.topics.server_outages import RetryBackoff
from sinks.topics.topic_settings import Connections, TopicAccess, TopicUri
from sinks.wire.raw_broker_reports import SourceSettings
from sinks.wire.record_decoding import Position, WireLimits
from strategies.errors import SinkError

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ENDING)


@dataclass(frozen=True, slots=True)
class StopCondition:
    """When to stop: `follow`: never; `idle_s`: after this number of seconds without records;
    otherwise at the topic's present end.

    `outage_s`: longest outage of a server in the middle of the topic.
    """

    follow: bool = False
    idle_s: float | None = None
    outage_s: float = 0.0

    @property
    def waits(self) -> bool:
        return self.follow or self.idle_s is not None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Result of a copy. `stopped_by`: name of a signal, or empty; `lost`: the error that ended
    reading.
    """

    records: int
    bytes: int
    stopped_by: str
    lost: SinkError | None = None


def source_of(copied: TopicUri, connections: Connections) -> SourceSettings:
    """Whether the records of a topic get our envelope."""
    # Other topics contain our own records, which have their own formats.
    return connections.source if copied == connections.topics.telemetry else SourceSettings()


def record(
    reader: Reader,
    target: Path,
    until: StopCondition,
    stop: Stop,
    log: Callable[[str], None],
    *,
    unread: Skipped | None = None,
    outage: RetryBackoff | None = None,
) -> Recorded:
    """Copies records byte for byte. The target appears when it is complete: also after a stop,
    never after an error.

    Exception: a lost topic ends a copy that waits for records, and what was recorded stays
    (`Recorded.lost`). `unread` counts unreadable records. Raises SinkError.
    """
    records = size = 0
    lost: list[SinkError] = []
    unread = unread or Skipped("the topic", "record")
    with new_recording(target) as recording:
        for found in _until_lost(_blocks(reader, until, stop, outage), until, lost):
            values = [value for _, value in readable(found, as_line, unread)]
            recording.append(values)
            records += len(values)
            size += sum(len(value) + 1 for value in values)
            log(f"{records} records")
    return Recorded(records, size, stop.by, lost[0] if lost else None)


@contextmanager
def new_recording(target: Path) -> Iterator[Recording | ColumnarRecording]:
    """A recording that becomes the target when the block ends without an error; its form is that of
    the target's ending. Raises SinkError.
    """
    ending = next((known for known in ENDINGS if target.name.endswith(known)), "")
    opened = ColumnarRecording if ending == ENDING else Recording
    with _replacing(target, ending) as part, opened(part) as recording:
        yield recording


def converted(source: str, target: Path, limits: WireLimits) -> Recorded:
    """Converts a recording to a columnar one, which appears when it is complete.

    Raises SinkError, also for a recording without usable records, and SettingsError if pyarrow is
    not installed.
    """
    records = size = 0
    lines = open_recording(source)
    with _replacing(target) as part:
        with ColumnarRecording(part, limits) as recording:
            for line in lines:
                recording.append([line])
                records += 1
                size += len(line) + 1
        check_use(source, records, recording.rejected)
    return Recorded(records, size, "")


@contextmanager
def _replacing(target: Path, ending: str = "") -> Iterator[Path]:
    """A file that becomes the target when the block ends without an error."""
    part = target.with_name(f".{target.name}.part{ending}")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _blocks(
    reader: Reader, until: StopCondition, stop: Stop, outage: RetryBackoff | None = None
) -> Iterator[Sequence[TopicRecord]]:
    outage = outage or RetryBackoff(until.outage_s, stop.wait, lambda line: put(line, sys.stderr))
    newest = time.monotonic()
    while not stop.is_set():
        try:
            records = reader.read()
        except SinkError as error:
            outage.wait_or_raise(error)
            continue
        outage.succeeded()
        if records:
            newest = time.monotonic()
            yield records
        elif not until.waits or (
            until.idle_s is not None and time.monotonic() - newest >= until.idle_s
        ):
            return
        else:
            stop.wait(0.2)


def _until_lost(
    blocks: Iterator[Sequence[TopicRecord]], until: StopCondition, lost: list[SinkError]
) -> Iterator[Sequence[TopicRecord]]:
    """The blocks. An error after the first block goes to `lost` if the copy waits for records,
    otherwise it is raised.
    """
    begun = False
    try:
        for records in blocks:
            begun = True
            yield records
    except SinkError as error:
        if not (until.waits and begun):
            raise
        lost.append(error)


def as_line(value: bytes) -> bytes:
    """A record as one line: on Kafka or Pulsar it may contain newlines, which mean nothing between
    the parts of a JSON object.
    """
    return value.replace(b"\n", b" ")


def topic_records(
    topic: TopicUri,
    access: TopicAccess,
    source: SourceSettings = SourceSettings(),
    *,
    since_ms: int | None = None,
) -> Iterator[TopicRecord]:
    """The records that a topic holds now, with their positions. `since_ms`: see `open_reader`.
    Raises SettingsError and SinkError, at once if it cannot be opened.
    """
    reader = open_reader(topic, access, source=source, since_ms=since_ms)

    def records() -> Iterator[TopicRecord]:
        with closing(reader):
            for found in _blocks(
                reader, StopCondition(outage_s=access.kafka.outage_ms / 1000), Stop()
            ):
                yield from found

    return records()


def positioned(lines: Iterable[bytes], topic: str) -> Iterator[TopicRecord]:
    """Numbers lines as in a file topic of one segment: partition 0, offset = byte in the
    uncompressed recording.
    """
    offset = 0
    for line in lines:
        yield TopicRecord(Position(topic, 0, offset), line, len(line))
        offset += len(line) + 1


def topic_name(recording: Path | str) -> str:
    """The topic of rejected rows: the recording's file name, so that rows do not depend on the
    folder.
    """
    return "-" if str(recording) == "-" else Path(recording).name


def of_recording(recording: Path | str) -> Iterator[TopicRecord]:
    """The lines of a recording with their positions. Raises SinkError."""
    return positioned(open_recording(recording), topic_name(recording))

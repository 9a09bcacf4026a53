"""A topic into a recording: what is there, or what comes until somebody stops it or nothing comes any more."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sinks.recordings.columnar import ENDING
from sinks.recordings.columnar_writing import ColumnarRecording
from sinks.recordings.json_lines import Recording, open_recording, write_recording
from sinks.stopping import Stop
from sinks.topics.access import Reader, TopicAccess, TopicRecord, open_reader
from sinks.topics.readable import Skipped, readable
from sinks.topics.retry_backoff import RetryBackoff
from sinks.topics.uri import TopicUri
from sinks.wire.limits import WireLimits
from sinks.wire.raw import SourceSettings
from strategies.errors import SinkError

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ENDING)
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Patience:
    """When to stop: with `follow` never by itself; with `idle_s` when nothing came for so long; otherwise at the topic's present end.

    `outage_s`: for how long a server may be away in the middle.
    """

    follow: bool = False
    idle_s: float | None = None
    outage_s: float = 0.0

    @property
    def waits(self) -> bool:
        return self.follow or self.idle_s is not None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What went into the recording; `stopped_by` is the name of a signal, or empty; `lost`: why the topic could not be read any more."""

    records: int
    bytes: int
    stopped_by: str
    lost: SinkError | None = None


def record(
    reader: Reader,
    target: Path,
    patience: Patience,
    stop: Stop,
    say: Callable[[str], None],
    *,
    unread: Skipped | None = None,
    outage: RetryBackoff | None = None,
) -> Recorded:
    """Copies records byte for byte. The target appears when it is whole: also after a stop, never after an error.

    But what was recorded in days of waiting for more is kept when the topic is lost (`Recorded.lost`). `unread` gets what cannot be read.
    Raises SinkError.
    """
    ending = next((known for known in ENDINGS if target.name.endswith(known)), "")
    part = target.with_name(f".{target.name}.part{ending}")
    records = size = 0
    lost: list[SinkError] = []
    unread = unread or Skipped("the topic", "record")
    try:
        with _begin(part) as recording:
            for found in _as_long_as_it_lasts(_blocks(reader, patience, stop, outage), patience, lost):
                values = [value for _, value in readable(found, as_line, unread)]
                recording.append(values)
                records += len(values)
                size += sum(len(value) + 1 for value in values)
                say(f"{records} records")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return Recorded(records, size, stop.by, lost[0] if lost else None)


def converted(source: str, target: Path, limits: WireLimits) -> Recorded:
    """A recording as a columnar one, which appears when it is whole.

    Raises SinkError, also where it holds nothing to be used, and SettingsError where pyarrow is missing.
    """
    part = target.with_name(f".{target.name}.part")
    records = size = 0
    lines = open_recording(source)
    try:
        with ColumnarRecording(part, limits) as recording:
            for line in lines:
                recording.append([line])
                records += 1
                size += len(line) + 1
        check_use(source, records, recording.rejected)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return Recorded(records, size, "")


def check_use(origin: str, records: int, rejected: int) -> None:
    """Whether there is anything in it. Raises SinkError: whoever asks for decisions on nothing has named the wrong thing."""
    if not records:
        raise SinkError(f"{origin} holds no record; name a recording of load reports, made with `rebalancer record`.")
    if rejected >= records:
        count = "its only record" if records == 1 else f"none of its {records} records"
        raise SinkError(
            f"{origin}: {count} can{'not' if records == 1 else ''} be used as telemetry; name a recording of load reports, made with "
            "`rebalancer record` (`rebalancer replay` says what is wrong with each)."
        )


def _progress(sentence: str) -> None:
    """One line on standard error."""
    print(sentence, file=sys.stderr, flush=True)


def _begin(path: Path) -> Recording | ColumnarRecording:
    return ColumnarRecording(path) if path.suffix == ENDING else write_recording(path)


def _blocks(reader: Reader, patience: Patience, stop: Stop, outage: RetryBackoff | None = None) -> Iterator[Sequence[TopicRecord]]:
    outage = outage or RetryBackoff(patience.outage_s, stop.wait, _progress)
    newest = time.monotonic()
    while not stop.is_set():
        try:
            records = reader.read()
        except SinkError as error:
            outage.wait_or_raise(error)
            continue
        outage.over()
        if records:
            newest = time.monotonic()
            yield records
        elif not patience.waits or (patience.idle_s is not None and time.monotonic() - newest >= patience.idle_s):
            return
        else:
            stop.wait(_LOOK_EVERY_S)


def _as_long_as_it_lasts(
    blocks: Iterator[Sequence[TopicRecord]], patience: Patience, lost: list[SinkError]
) -> Iterator[Sequence[TopicRecord]]:
    """The blocks; an error after the first of those that were waited for goes to `lost`."""
    begun = False
    try:
        for records in blocks:
            begun = True
            yield records
    except SinkError as error:
        if not (patience.waits and begun):
            raise
        lost.append(error)


def as_line(value: bytes) -> bytes:
    """A record as one line: on Kafka or Pulsar it may hold newlines, which mean nothing between the parts of a JSON object."""
    return value.replace(b"\n", b" ")


def topic_records(topic: TopicUri, access: TopicAccess, source: SourceSettings = SourceSettings()) -> Iterator[TopicRecord]:
    """The records that a topic holds now, with their positions. Raises SettingsError and SinkError, at once if it cannot open."""
    reader = open_reader(topic, access, source=source)

    def records() -> Iterator[TopicRecord]:
        with closing(reader):
            for found in _blocks(reader, Patience(outage_s=access.kafka.outage_ms / 1000), Stop()):
                yield from found

    return records()

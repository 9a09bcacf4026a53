"""A topic into a recording: what is there, or what comes until somebody stops it or nothing comes any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cli.stopping import Stop
from sinks.file_topic import FileTopicReader
from sinks.recording import write_recording

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_READ_BYTES = 16 * 2**20
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Patience:
    """When to stop: with `follow` never by itself; with `idle_s` when nothing came for so long; otherwise at the topic's present end."""

    follow: bool = False
    idle_s: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What went into the recording; `stopped_by` is the name of a signal, or empty."""

    records: int
    bytes: int
    stopped_by: str


def record(reader: FileTopicReader, target: Path, patience: Patience, stop: Stop, say: Callable[[str], None]) -> Recorded:
    """Copies records byte for byte. The target appears when it is whole: also after a stop, never after an error. Raises SinkError."""
    ending = next((known for known in ENDINGS if target.name.endswith(known)), "")
    part = target.with_name(f".{target.name}.part{ending}")
    records = size = 0
    try:
        with write_recording(part) as recording:
            for values in _blocks(reader, patience, stop):
                recording.append(values)
                records += len(values)
                size += sum(len(value) + 1 for value in values)
                say(f"{records} records")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return Recorded(records, size, stop.by)


def _blocks(reader: FileTopicReader, patience: Patience, stop: Stop) -> Iterator[list[bytes]]:
    waits = patience.follow or patience.idle_s is not None
    end = None if waits else reader.end()
    offset = reader.begin()
    newest = time.monotonic()
    while not stop.is_set():
        records, offset = reader.read(offset, max_bytes=_READ_BYTES, end=end)
        if records:
            newest = time.monotonic()
            yield [record.value for record in records]
        elif not waits or (patience.idle_s is not None and time.monotonic() - newest >= patience.idle_s):
            return
        else:
            stop.wait(_LOOK_EVERY_S)

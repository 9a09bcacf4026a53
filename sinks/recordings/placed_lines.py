"""Reads a recording as if its lines were the records of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sinks.recordings.json_lines import open_recording
from sinks.topics.readable import Placed
from sinks.wire.position import Position


def positioned(lines: Iterable[bytes], topic: str) -> Iterator[Placed]:
    """Numbers lines as in a file topic of one segment: partition 0, offset = byte in the
    uncompressed recording.
    """
    offset = 0
    for line in lines:
        yield Placed(Position(topic, 0, offset), line)
        offset += len(line) + 1


def topic_name(recording: Path | str) -> str:
    """The topic of rejected rows: the recording's file name, so that rows do not depend on the
    folder.
    """
    return "-" if str(recording) == "-" else Path(recording).name


def of_recording(recording: Path | str) -> Iterator[Placed]:
    """The lines of a recording with their positions. Raises SinkError."""
    return positioned(open_recording(recording), topic_name(recording))

"""The plain loop over a recording: the reference that every other way of deciding must equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sinks.limits import WireLimits
from sinks.outputs import OutputRow
from sinks.plain_loop import PlainLoop
from sinks.position import Position
from strategies.engine import EngineSettings


def positioned(lines: Iterable[bytes], topic: str) -> Iterator[tuple[Position, bytes]]:
    """Numbers lines as the one segment of a file topic would: partition 0, offset = byte in the uncompressed recording."""
    offset = 0
    for line in lines:
        yield Position(topic, 0, offset), line
        offset += len(line) + 1


def topic_name(recording: Path | str) -> str:
    """What rejected rows name as their topic: the recording's file name, so that the same recording gives the same bytes anywhere."""
    return "-" if str(recording) == "-" else Path(recording).name


def decide(lines: Iterable[bytes], topic: str, engine: EngineSettings, limits: WireLimits) -> Iterator[list[OutputRow]]:
    """The rows that follow from each line, as soon as the line is there."""
    loop = PlainLoop(engine, limits)
    for position, line in positioned(lines, topic):
        yield loop.feed(position, line)

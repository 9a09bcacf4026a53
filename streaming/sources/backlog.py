"""Counts the records between two positions of a file topic without decoding them."""

from __future__ import annotations

from pathlib import Path

from sinks.topics.files.segments import Offset, segment_path, segments

_BLOCK = 2**20


def count_lines(folder: Path, begin: Offset, end: Offset) -> int:
    """Newlines from `begin` to `end`; deleted segments count as empty."""
    return sum(
        _count(
            segment_path(folder, number),
            begin.byte if number == begin.segment else 0,
            end.byte if number == end.segment else None,
        )
        for number in segments(folder)
        if begin.segment <= number <= end.segment
    )


def _count(path: Path, begin: int, end: int | None) -> int:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            left = (path.stat().st_size if end is None else end) - begin
            lines = 0
            while left > 0 and (block := file.read(min(left, _BLOCK))):
                lines += block.count(b"\n")
                left -= len(block)
            return lines
    except FileNotFoundError:
        return 0

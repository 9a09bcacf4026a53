"""Finds the place in a file topic where records of a time begin, with few reads, and counts the
records between two places without decoding them.
"""

from bisect import bisect_left
from pathlib import Path
from statistics import median_low

import msgspec

from sinks.topics.files.segments import Offset, last_newline, open_segment, segment_path, segments
from sinks.topics.files.topic import FileTopicReader

#: Distance between two places that are looked at; records before the time that are read as well.
_STEP = 2**18
#: Number of records whose middle time counts: single clocks may be wrong.
_RECORDS = 31
_LATEST = 2**63
_BLOCK = 2**20


class _Timed(msgspec.Struct):
    ts: int


def offset_since(folder: Path, ms: int) -> Offset:
    """Returns a place before the records of `ms` (of their own time, since the epoch) and later,
    and after most others. Reads some records of about twenty places, however long the topic is.
    Raises SinkError.
    """
    reader = FileTopicReader(folder)
    numbers = segments(folder)
    after = bisect_left(numbers, ms, key=lambda number: _time_at(reader, Offset(number, 0)))
    if after == 0:
        return reader.begin()
    segment = numbers[after - 1]
    with open_segment(folder, segment) as (descriptor, size):
        places = [Offset(segment, byte) for byte in range(0, size, _STEP)]

        def line(place: Offset) -> Offset:
            return Offset(segment, last_newline(descriptor, place.byte))

        later = bisect_left(places, ms, key=lambda place: _time_at(reader, line(place)))
        return line(places[max(0, later - 1)])


def _time_at(reader: FileTopicReader, place: Offset) -> int:
    """Returns the middle time of the next records; the latest one where none has a time."""
    records, _ = reader.read(place, _RECORDS)
    times = []
    for record in records:
        try:
            times.append(msgspec.json.decode(record.value, type=_Timed).ts)
        except (ValueError, RecursionError):
            continue
    return median_low(times) if times else _LATEST


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
            rest = (path.stat().st_size if end is None else end) - begin
            lines = 0
            while rest > 0 and (block := file.read(min(rest, _BLOCK))):
                lines += block.count(b"\n")
                rest -= len(block)
            return lines
    except FileNotFoundError:
        return 0

"""Segments of a file topic: their names, their order, their lines, and the end of the last complete
line.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from sinks.wire.record_decoding import DEFAULT_LIMITS, WireLimits
from strategies.errors import SinkError


class Line(NamedTuple):
    """`value`: the line without newline, or its beginning; `size`: bytes of the whole line;
    `ended`: whether its newline was found.
    """

    value: bytes
    size: int
    ended: bool


def split_lines(blocks: Iterable[bytes], limits: WireLimits) -> Iterator[Line]:
    """Lines in order; the last one may lack its newline. Lines above `max_record_bytes` are cut to
    `kept_bytes`.
    """
    rest, size = bytearray(), 0
    for block in blocks:
        # Inside a line of which no more is kept: most of a topic with lines of 8 MiB.
        if size > limits.max_record_bytes and len(rest) >= limits.kept_bytes and b"\n" not in block:
            size += len(block)
            continue
        *ended, tail = block.split(b"\n")
        for piece in ended:
            yield (
                Line(_kept(rest, size, piece, limits), size + len(piece), True)
                if size
                else _whole(piece, limits)
            )
            rest, size = bytearray(), 0
        size += len(tail)
        rest += tail
        if size > limits.max_record_bytes:
            del rest[limits.kept_bytes :]
    if size:
        yield Line(_kept(rest, size, b"", limits), size, False)


def _whole(piece: bytes, limits: WireLimits) -> Line:
    size = len(piece)
    return Line(
        piece if size <= limits.max_record_bytes else piece[: limits.kept_bytes], size, True
    )


def _kept(rest: bytearray, size: int, piece: bytes, limits: WireLimits) -> bytes:
    """The line made of `rest` (of which `size` bytes were seen) and `piece`, cut if it is too
    long.
    """
    if size + len(piece) <= limits.max_record_bytes:
        return bytes(rest) + piece
    return bytes(rest[: limits.kept_bytes]) + piece[: max(0, limits.kept_bytes - len(rest))]


_NAME = re.compile(r"segment-(\d{8,18})\.jsonl")
_BLOCK = 2**18
#: Lines that are looked at for a time: torn and foreign lines have none.
_TIMED_LINES = 8


class _Times(msgspec.Struct):
    """What our records call their time (ms since the epoch): commands have the second one."""

    ts: int | None = None
    issued_at_ms: int | None = None


class OffsetGone(SinkError):
    """What a reader was to read next is no longer there; `what`: with the remedies on the topic.
    Readers add how they begin again, as a plain SinkError: Spark carries no other.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}.")
        self.what = what

    def for_reader(self, begin_again: str) -> SinkError:
        """The error to raise. `begin_again`: what makes this reader begin with the oldest line."""
        return SinkError(
            f"{self.what}, or {begin_again}, which reads the topic from its oldest line."
        )


class Offset(NamedTuple):
    """A position between two lines of a file topic: segment number and byte offset."""

    segment: int
    byte: int


def segment_path(folder: Path, segment: int) -> Path:
    """The file of a segment."""
    return folder / f"segment-{segment:08d}.jsonl"


def segments(folder: Path) -> list[int]:
    """Numbers of the existing segments, ascending; empty if the folder does not exist. Raises
    SinkError if it cannot be listed.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SinkError(
            f"{folder} cannot be listed ({error.strerror}); name a folder that this user may read."
        ) from error
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def last_newline(descriptor: int, size: int) -> int:
    """Offset after the last newline within the first `size` bytes; 0 without newline."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


@contextlib.contextmanager
def open_segment(folder: Path, segment: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """File descriptor and size of a segment, after checking that a line begins at `start`. Raises
    SinkError.
    """
    path = segment_path(folder, segment)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _gone(folder, Offset(segment, start)) from error
    except OSError as error:
        raise SinkError(
            f"{path} cannot be read ({error.strerror}); let this user read it."
        ) from error
    try:
        size = os.fstat(descriptor).st_size
        if start > size or (start and os.pread(descriptor, 1, start - 1) != b"\n"):
            raise _gone(folder, Offset(segment, start))
        yield descriptor, size
    except OSError as error:
        raise SinkError(f"{path} cannot be read ({error.strerror}); check the disk.") from error
    finally:
        os.close(descriptor)


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes from `start` to `end`, or to the end of the file."""
    while start < end and (block := os.pread(descriptor, min(_BLOCK, end - start), start)):
        yield block
        start += len(block)


#: How the job begins a file topic again.
BY_A_NEW_CHECKPOINT = "start with a new checkpoint"


def read_line(folder: Path, start: Offset, size: int) -> bytes:
    """The line of `size` bytes at an offset, for the job. Raises SinkError if it is gone."""
    try:
        with open_segment(folder, start.segment, start.byte) as (descriptor, _):
            line = b"".join(read_blocks(descriptor, start.byte, start.byte + size))
        if len(line) < size:
            raise _gone(folder, start)
    except OffsetGone as error:
        raise error.for_reader(BY_A_NEW_CHECKPOINT) from error
    return line


def check_offset(folder: Path, start: Offset, numbers: Sequence[int]) -> None:
    """Raises SinkError unless all segments from `start` on exist; an empty topic has only its
    beginning.
    """
    if not numbers and start == Offset(0, 0):
        return
    following = [number for number in numbers if number >= start.segment]
    if numbers and start.segment < numbers[0]:
        raise OffsetGone(
            f"Offset {start.segment}:{start.byte} of {folder} is gone: the topic begins with "
            f"{segment_path(folder, numbers[0]).name}, the segments before were deleted "
            "(files.retention_hours) before they were read. Raise the retention, and set "
            "job.fail_on_data_loss=false for one start, which continues with the oldest line"
        )
    if not following or following[0] != start.segment:
        raise _gone(folder, start)
    for number, there in enumerate(following, start.segment):
        if number != there:
            raise _gone(folder, Offset(number, 0))


def delete_segments(folder: Path, before_ms: int, kept_ms: int | None = None) -> int:
    """Deletes the segments that were last written before a time (ms since the epoch), but not the
    newest one; returns their number. For topics whose readers are all past them. Raises SinkError.

    `kept_ms`: deletes only what is older than this by the records' own times too, so that a clock
    that is wrong for a moment deletes nothing; records without a time do not count.
    """
    deleted = 0
    numbers = segments(folder)
    for number, successor in itertools.pairwise(numbers):
        path = segment_path(folder, number)
        try:
            if path.stat().st_mtime * 1000 >= before_ms or (
                kept_ms is not None
                and not _old_by_records(folder, number, successor, numbers[-1], kept_ms)
            ):
                break
            path.unlink()
        except OSError as error:
            raise SinkError(
                f"{path} cannot be deleted ({error.strerror}); let this user write there."
            ) from error
        deleted += 1
    return deleted


def _old_by_records(folder: Path, number: int, successor: int, newest: int, kept_ms: int) -> bool:
    """True if a segment ended longer than `kept_ms` before the newest one began. Both are times of
    records; one record of a wrong clock at the end of a segment does not keep it for ever, and the
    newest segment did not begin after it was written.
    """
    times = (_last_ms(folder, number), _first_ms(folder, successor))
    ended = [ms for ms in times if ms is not None]
    written_ms = segment_path(folder, newest).stat().st_mtime * 1000
    begun_ms = _first_ms(folder, newest)
    now_ms = written_ms if begun_ms is None else min(begun_ms, written_ms)
    return not ended or min(ended) < now_ms - kept_ms


def _first_ms(folder: Path, number: int) -> int | None:
    """The time of a segment's first record; None if its first lines have none."""
    with open_segment(folder, number) as (descriptor, size):
        lines = split_lines(read_blocks(descriptor, 0, size), DEFAULT_LIMITS)
        times = (_time_ms(line.value) for line in itertools.islice(lines, _TIMED_LINES))
        return next((ms for ms in times if ms is not None), None)


def _last_ms(folder: Path, number: int) -> int | None:
    """The time of a segment's last record; None if its last lines have none."""
    with open_segment(folder, number) as (descriptor, size):
        lines = itertools.islice(_lines_backwards(descriptor, size), _TIMED_LINES)
        return next((ms for line in lines if (ms := _time_ms(line)) is not None), None)


def _lines_backwards(descriptor: int, end: int) -> Iterator[bytes]:
    while end > 0:
        start = last_newline(descriptor, end - 1)
        yield os.pread(descriptor, min(end - start, DEFAULT_LIMITS.max_record_bytes), start)
        end = start


def _time_ms(line: bytes) -> int | None:
    try:
        times = msgspec.json.decode(line, type=_Times)
    except (ValueError, RecursionError):
        return None
    return times.issued_at_ms if times.ts is None else times.ts


def _gone(folder: Path, offset: Offset) -> OffsetGone:
    return OffsetGone(
        f"Offset {offset.segment}:{offset.byte} of {folder} is gone: "
        f"{segment_path(folder, offset.segment).name} was deleted, cut or replaced. Put the "
        "segment back"
    )

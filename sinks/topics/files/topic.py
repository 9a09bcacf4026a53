"""File topics: a folder of append-only JSON Lines segments. Any number of processes append to it in
one total order.

A writer holds the folder's lock while it appends, so lines of two writers never mix. A writer that
dies in the middle of a line leaves a torn line; the next writer ends it with a newline, so that it
becomes a rejected record of its own. A reader needs no lock: it reads only lines with a newline,
and leaves a segment only if a successor existed before it reached the segment's end.
The folder must be on a local disk: locks on network file systems are unreliable.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sinks.durable_files import make_folder, sync_folder
from sinks.graceful_stop import wall_clock_ms
from sinks.topics.files.segments import (
    BY_A_NEW_CHECKPOINT,
    Offset,
    OffsetGone,
    check_offset,
    delete_segments,
    last_newline,
    open_segment,
    read_blocks,
    segment_path,
    segments,
    split_lines,
)
from sinks.wire.record_decoding import DEFAULT_LIMITS, Position, WireLimits
from strategies.errors import ContractError, PublishTimeout, SinkError

__all__ = ["FileTopicReader", "FileTopicWriter", "Offset", "TopicRecord"]

#: Records of a topic on servers that one read returns at most.
READ_RECORDS = 2_000
SEGMENT_BYTES = 64 * 2**20
_LOCK = ".lock"


class TopicRecord(NamedTuple):
    """One record of a topic. `value` is only its beginning if `size` is larger.

    `unread`: the reason, as a sentence, if the topic contains something at this position that
    cannot be read; otherwise empty.
    """

    position: Position
    value: bytes
    size: int
    unread: str = ""


class FileTopicWriter:
    """Appends to the topic's last segment, and begins a new one after `segment_bytes`. One writer
    per process and topic.
    """

    def __init__(
        self,
        folder: Path,
        segment_bytes: int = SEGMENT_BYTES,
        *,
        sync: bool = False,
        retention_ms: int | None = None,
        lock_timeout_s: float = 30.0,
        fsync: Callable[[int], None] = os.fsync,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Creates the folder. With `sync`, lines are on the disk when `append` returns. Raises
        SinkError.

        `retention_ms`: segments that ended before are deleted with each `append`, never the newest
        one; None = none. `fsync`: flushes the file or folder of a file descriptor.
        """
        self._folder = folder
        self._waiting: list[bytes] = []
        self._segment_bytes = segment_bytes
        self._sync, self._fsync = sync, fsync
        self._named = False  # whether the names of the folder and its segments are on the disk
        self._retention_ms, self._clock_ms = retention_ms, clock_ms
        self._lock_timeout_s = lock_timeout_s
        self._threads = threading.Lock()  # a file lock does not exclude threads of the same process
        try:
            if sync:
                make_folder(folder, fsync)
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SinkError(
                f"{folder} cannot be written ({error.strerror}); name a folder that this user "
                "may create or write."
            ) from error

    def append(self, values: Sequence[bytes]) -> Offset:
        """Appends one line per value, in order and without lines of other writers between; returns
        the offset after them.

        Raises SinkError, PublishTimeout. After an error the topic may contain the first values;
        append all of them again (at least once).
        """
        if any(b"\n" in value for value in values):
            raise ContractError(
                "A record of a file topic must not contain a newline; please report this as a bug."
            )
        data = b"".join(value + b"\n" for value in values)
        try:
            with self._threads, self._locked():
                self._delete_old()  # first: it may be what a full disk needs
                return self._append(data)
        except OSError as error:
            raise SinkError(
                f"{self._folder} cannot be appended to ({error.strerror}); make room, or name "
                "another folder."
            ) from error

    def publish(self, key: str, value: bytes) -> None:
        """See Publisher. Keys are not stored: they are fields of the records."""
        self._waiting.append(value)

    def flush(self) -> None:
        """See Publisher."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.append(waiting)

    def close(self) -> None:
        """Closes the writer; a second call does nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def __enter__(self) -> "FileTopicWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + self._lock_timeout_s
        while not _try_lock(self._lock):
            if time.monotonic() > deadline:
                raise PublishTimeout(
                    f"{self._folder} has been locked by another writer for "
                    f"{self._lock_timeout_s:g} s; find the process that holds it and "
                    "end or continue that process."
                )
            time.sleep(0.002)
        try:
            self._check_lock()
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _check_lock(self) -> None:
        """Raises SinkError if the folder was replaced: its writers then lock another file."""
        if os.stat(self._folder / _LOCK).st_ino != os.fstat(self._lock).st_ino:
            raise SinkError(
                f"{self._folder} was deleted and created again by another process; open the "
                "topic again."
            )

    def _append(self, data: bytes) -> Offset:
        numbers = segments(self._folder)
        segment = (numbers or [0])[-1]
        self._named = self._named and bool(numbers)
        with self._opened(segment) as descriptor:
            size = _end_torn_line(descriptor)
            if size < self._segment_bytes or not data:
                self._write(descriptor, data)
                return Offset(segment, size + len(data))
            # Its age counts from here: a reader at its end still has to go on to the successor.
            with contextlib.suppress(OSError):
                os.utime(descriptor)
            if self._sync:  # the lines of a segment are safe before readers see its successor
                self._fsync(descriptor)
        self._named = False
        with self._opened(segment + 1) as descriptor:
            self._write(descriptor, data)
            return Offset(segment + 1, len(data))

    def _delete_old(self) -> None:
        """An error is no reason not to publish. The metrics of every process that writes show the
        free space of the disk.
        """
        if self._retention_ms is not None:
            with contextlib.suppress(SinkError):
                delete_segments(
                    self._folder, self._clock_ms() - self._retention_ms, self._retention_ms
                )

    @contextlib.contextmanager
    def _opened(self, segment: int) -> Iterator[int]:
        descriptor = os.open(
            segment_path(self._folder, segment),
            os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o666,
        )
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if not self._sync:
            return
        self._fsync(descriptor)
        if not self._named:
            sync_folder(self._folder, self._fsync)
            sync_folder(self._folder.parent, self._fsync)
            self._named = True


class FileTopicReader:
    """Reads a file topic from any offset, including lines appended meanwhile. A missing folder is
    an empty topic.
    """

    def __init__(
        self,
        folder: Path,
        topic: str | None = None,
        limits: WireLimits = DEFAULT_LIMITS,
        *,
        skip_deleted: bool = False,
        begin_again: str = BY_A_NEW_CHECKPOINT,
    ) -> None:
        """`topic`: the name in positions; by default the folder's name. `skip_deleted`: where the
        oldest segments were deleted, reads on at the oldest line instead of raising SinkError.
        `begin_again`: what makes this reader begin with the oldest line, for errors.
        """
        self._begin_again = begin_again
        self._skip_deleted = skip_deleted
        self._folder = folder
        self._topic = folder.name if topic is None else topic
        self._limits = limits

    def begin(self) -> Offset:
        """The oldest offset."""
        return Offset((segments(self._folder) or [0])[0], 0)

    def written_since(self, ms: int) -> Offset:
        """The beginning of the first segment written at `ms` (since 1970) or later; the end if
        there is none.
        """
        for number in segments(self._folder):
            with contextlib.suppress(FileNotFoundError):
                if segment_path(self._folder, number).stat().st_mtime_ns >= ms * 1_000_000:
                    return Offset(number, 0)
        return self.end()

    def end(self) -> Offset:
        """The offset after the last complete line."""
        numbers = segments(self._folder)
        if not numbers:
            return Offset(0, 0)
        with open_segment(self._folder, numbers[-1]) as (descriptor, size):
            return Offset(numbers[-1], last_newline(descriptor, size))

    def read(
        self,
        start: Offset | None = None,
        max_records: int | None = None,
        max_bytes: int | None = None,
        end: Offset | None = None,
    ) -> tuple[list[TopicRecord], Offset]:
        """Complete lines from `start` (None: the oldest), and the offset after them.

        Stops before `end`, after `max_records` lines, or after the line that reaches `max_bytes`.
        Raises SinkError if lines after `start` are missing.
        """
        records: list[TopicRecord] = []
        oldest = self.begin() if start is None or self._skip_deleted else start
        offset, taken = oldest if start is None else max(start, oldest), 0
        try:
            for record, after in self._walk(offset, end):
                offset = after
                if record is not None:
                    records.append(record)
                    taken += record.size
                if len(records) == max_records or (max_bytes is not None and taken >= max_bytes):
                    break
        except OffsetGone as error:
            raise error.for_reader(self._begin_again) from error
        return records, offset

    def _walk(
        self, start: Offset, end: Offset | None
    ) -> Iterator[tuple[TopicRecord | None, Offset]]:
        """Each line with the offset after it; None with the start offset of each further
        segment.
        """
        # Listed before reading: only the last segment of the list can still grow, the others are
        # read to their end.
        numbers = segments(self._folder)
        check_offset(self._folder, start, numbers)
        for number in numbers:
            if number < start.segment or (end is not None and number > end.segment):
                continue
            if number > start.segment:
                yield None, Offset(number, 0)
            first = start.byte if number == start.segment else 0
            last = end.byte if end is not None and number == end.segment else None
            yield from self._walk_segment(
                Offset(number, first), last, finished=number != numbers[-1]
            )

    def _walk_segment(
        self, start: Offset, end: int | None, *, finished: bool
    ) -> Iterator[tuple[TopicRecord, Offset]]:
        segment, byte = start
        with open_segment(self._folder, segment, start.byte) as (descriptor, size):
            for line in split_lines(
                read_blocks(descriptor, byte, size if end is None else min(size, end)), self._limits
            ):
                record = TopicRecord(Position(self._topic, segment, byte), line.value, line.size)
                byte += line.size + 1
                if line.ended:
                    yield record, Offset(segment, byte)
                elif finished and end is None:
                    # A foreign writer: ours end a torn line before they begin a segment. The
                    # segment's end ends the line.
                    yield record, Offset(segment + 1, 0)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end_torn_line(descriptor: int) -> int:
    """Size of the segment, after adding a newline to an unterminated last line."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
        size += 1
    return size

"""A consumer of a file topic. Its position is in a small file that is replaced atomically, after
the lines before it are flushed.

A position that survives a power failure while the lines before it do not is a position in other
lines: later writers append where the lost ones were. Our writers flush (`sync`), others need not.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from sinks.durable_files import Fsync, make_folder, sync_folder, write_durably
from sinks.topics.files.segments import Offset, segment_path, segments
from sinks.topics.files.topic import FileTopicReader, TopicRecord
from sinks.wire.record_decoding import DEFAULT_LIMITS, Position, WireLimits
from strategies.errors import SinkError


class ReadFlush:
    """Of one topic and reader; remembers what it has flushed."""

    def __init__(self, folder: Path, fsync: Fsync = os.fsync) -> None:
        """`fsync`: flushes the file or folder of a file descriptor."""
        self._folder, self._fsync = folder, fsync
        self._done: Offset | None = None

    def between(self, begin: Offset, end: Offset) -> None:
        """Returns when the lines between two offsets, and the names of their segments, are on the
        disk. Deleted segments are left out: their lines are not read again. Raises SinkError.
        """
        if end == self._done:
            return
        try:
            for number in segments(self._folder):
                if begin.segment <= number <= end.segment:
                    self._flush(segment_path(self._folder, number))
            if self._done is None or self._done.segment != end.segment:
                sync_folder(self._folder, self._fsync)
        except OSError as error:
            raise SinkError(
                f"{self._folder} cannot be flushed ({error.strerror}); check the disk."
            ) from error
        self._done = end

    def _flush(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self._fsync(descriptor)
        finally:
            os.close(descriptor)


class FileConsumer:
    """Continues at the position that `group` committed last. One process at a time per group and
    folder.
    """

    def __init__(
        self,
        folder: Path,
        topic: str,
        group: str,
        positions: Path,
        limits: WireLimits = DEFAULT_LIMITS,
        *,
        skip_deleted: bool = False,
        fsync: Fsync = os.fsync,
    ) -> None:
        """`positions`: folder of position files; created if missing. `skip_deleted`: see
        FileTopicReader. `fsync`: flushes the file or
        folder of a file descriptor. Raises SinkError.
        """
        self._topic = topic
        self._file = (
            positions / f"{group}-{hashlib.blake2b(topic.encode(), digest_size=4).hexdigest()}.json"
        )
        self._reader = FileTopicReader(
            folder,
            topic,
            limits,
            skip_deleted=skip_deleted,
            begin_again=f"delete {self._file}",
        )
        self._fsync = fsync
        self._flush = ReadFlush(folder, fsync)
        self._next = self._committed()
        self._safe = self._next or Offset(0, 0)
        self._behind: dict[Position, Offset] = {}

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        """The next records, up to the one that reaches `max_bytes`; none if none arrive within
        `timeout_s`. Raises SinkError.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            records, after = self._reader.read(self._next, max_records, max_bytes)
            if records or time.monotonic() >= deadline:
                break
            time.sleep(0.02)
        self._next = after
        starts = [Offset(record.position.partition, record.position.offset) for record in records]
        self._behind.update(
            zip((record.position for record in records), [*starts[1:], after], strict=True)
            if records
            else ()
        )
        return records

    def commit(self, record: TopicRecord) -> None:
        """Stores the position after this record on the disk, after the record itself. Raises
        SinkError.
        """
        behind = self._behind[record.position]
        self._flush.between(self._safe, behind)
        self._safe = behind
        self._behind = {
            position: offset for position, offset in self._behind.items() if offset > behind
        }
        text = json.dumps(
            {"v": 1, "topic": self._topic, "segment": behind.segment, "byte": behind.byte}
        )
        try:
            make_folder(self._file.parent, self._fsync)
            write_durably(self._file, text, self._file.with_suffix(".part").name, self._fsync)
        except OSError as error:
            raise SinkError(
                f"{self._file} cannot be written ({error.strerror}); make room, or let this "
                "user write there."
            ) from error

    def close(self) -> None:
        """Does nothing: no file is open between two calls."""

    def _committed(self) -> Offset | None:
        try:
            tree = json.loads(self._file.read_text("utf-8"))
            return Offset(int(tree["segment"]), int(tree["byte"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SinkError(
                f"{self._file} is not a position file ({error}); delete it to begin with the "
                f"oldest record of {self._topic} again."
            ) from error

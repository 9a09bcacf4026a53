"""Flushes what a reader has read, before it stores a position after it.

A position that survives a power failure while the lines before it do not is a position in other
lines: later writers append where the lost ones were. Our writers flush (`sync`), others need not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sinks.full_disk import naming
from sinks.topics.files.segments import Offset, segment_path, segments, sync_folder
from strategies.errors import SinkError

Fsync = Callable[[int], None]


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


def write_durably(file: Path, text: str, draft: str, fsync: Fsync = os.fsync) -> None:
    """Replaces the content of a file, through a file of the name `draft` beside it: after a kill or
    a loss of power, the old or the new text is there as a whole, and the new one if this has
    returned. Raises OSError.
    """
    new = file.with_name(draft)
    with naming(file), new.open("w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        fsync(written.fileno())
    new.replace(file)
    sync_folder(file.parent, fsync)


def make_folder(folder: Path, fsync: Fsync = os.fsync) -> None:
    """Creates a folder and its parents; their names are on the disk when it returns. Raises
    OSError.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent, fsync)

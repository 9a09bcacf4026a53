"""Large records of a micro-batch, in a file until their cluster's quota admits them. The memory of
a task does not grow with their number.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from sinks.wire.position import Position

#: Reads a record of the topic again: position, size in bytes.
ReadAgain = Callable[[Position, int], bytes]
#: Bytes that stay in memory; a file begins with more.
_IN_MEMORY = 64 * 2**20


def never_again(place: Position, size: int) -> bytes:
    """For sources that pass on every record whole."""
    raise AssertionError(f"{place} has {size} bytes, of which only the beginning was passed on")


class LargeRecords:
    """Those of one call of a task. The file has no name: it is gone when the call or the process
    ends.
    """

    def __init__(self, read_again: ReadAgain = never_again, in_memory: int = _IN_MEMORY) -> None:
        """`read_again`: gets records of which the source passes on only the beginning."""
        self._read_again = read_again
        self._file = _opened(in_memory)
        weakref.finalize(self, self._file.close)
        self._kept: dict[Position, tuple[int, int, int]] = {}

    def keep(self, place: Position, value: bytes, readable: bytes) -> None:
        """`value`: the original bytes; `readable`: the same in the form of the wire. Raises OSError
        if the disk is full.
        """
        parts = (value,) if readable is value else (value, readable)
        begin = self._file.seek(0, os.SEEK_END)
        for part in parts:
            self._file.write(part)
        self._kept[place] = (begin, len(value), len(readable) if len(parts) > 1 else 0)

    def read(self, place: Position, size: int) -> tuple[bytes, bytes]:
        """Value and readable form of a record of `size` bytes that was kept, or of which the source
        has passed on the beginning. Raises SinkError if it is gone.
        """
        if place not in self._kept:
            value = self._read_again(place, size)
            return value, value
        begin, length, readable = self._kept[place]
        self._file.seek(begin)
        value = self._file.read(length)
        return value, self._file.read(readable) if readable else value


def _opened(in_memory: int) -> tempfile.SpooledTemporaryFile[bytes]:
    return tempfile.SpooledTemporaryFile(in_memory, dir=spill_folder(os.environ))


def spill_folder(environment: Mapping[str, str]) -> str | None:
    """Where Spark's tasks write what does not fit into memory; None: the machine's folder for
    temporary files.
    """
    folders = environment.get("SPARK_LOCAL_DIRS", "").split(",")
    return next(filter(os.path.isdir, folders), None)


def temporary_files(environment: Mapping[str, str]) -> Path:
    """Where a job on this machine writes its temporary files."""
    return Path(spill_folder(environment) or tempfile.gettempdir())

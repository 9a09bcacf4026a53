"""Keeps large records of a micro-batch in a file until their cluster's quota admits them, so that
the memory of a task does not grow with their number.
"""

import os
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

from sinks.topics.files.segments import Offset, read_line
from sinks.topics.topic_settings import parse_topic
from sinks.wire.record_decoding import Position

#: Bytes that stay in memory; a file begins with more.
_IN_MEMORY = 64 * 2**20


class LargeRecords:
    """The large records of one call of a task. The file has no name, so it is gone when the call or
    the process ends.
    """

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._file = tempfile.SpooledTemporaryFile[bytes](in_memory, dir=spill_folder(os.environ))
        weakref.finalize(self, self._file.close)
        #: Where a record begins, and the lengths of its parts.
        self._kept: dict[Position, tuple[int, list[int]]] = {}

    def keep(self, place: Position, value: bytes, readable: bytes) -> None:
        """Writes a record to the file. `value`: the original bytes; `readable`: the same in the
        form of the wire. Raises OSError if the disk is full.
        """
        parts = [value] if readable is value else [value, readable]
        begin = self._file.seek(0, os.SEEK_END)
        self._file.writelines(parts)
        self._kept[place] = (begin, [len(part) for part in parts])

    def read(self, place: Position, size: int) -> tuple[bytes, bytes]:
        """Returns value and readable form of a record of `size` bytes: from the file, or from the
        topic if the source has passed on its beginning only. Raises SinkError if it is gone.
        """
        if place not in self._kept:
            value = record_again(place, size)
            return value, value
        begin, lengths = self._kept[place]
        self._file.seek(begin)
        parts = [self._file.read(length) for length in lengths]
        return parts[0], parts[-1]


def record_again(place: Position, size: int) -> bytes:
    """Reads the record of a file topic at a position. Raises SinkError if it is gone."""
    return read_line(parse_topic(place.topic).folder, Offset(place.partition, place.offset), size)


def spill_folder(environment: Mapping[str, str]) -> str | None:
    """Returns the folder in which Spark's tasks write what does not fit into memory; None for the
    machine's folder for temporary files.
    """
    folders = environment.get("SPARK_LOCAL_DIRS", "").split(",")
    return next(filter(os.path.isdir, folders), None)


def temporary_files(environment: Mapping[str, str]) -> Path:
    """Returns the folder in which a job on this machine writes its temporary files."""
    return Path(spill_folder(environment) or tempfile.gettempdir())

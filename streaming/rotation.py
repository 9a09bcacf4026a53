"""Keeps files that a job appends to for months bounded: Spark's log and the progress file.

Java and Spark's Python workers write to an open file, which they would go on writing to after it
was renamed. So Spark's log is copied and cut, as logrotate's `copytruncate` does; a line written
between the two steps, which follow each other at once, is lost. Log4j's own rotation would leave
out what no logger writes: the errors of Java itself and of Python workers.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sinks.repeating import repeated

#: Number of older files: .1 is the newest of them.
KEPT = 3
_EVERY_S = 5.0
#: Longest wait for a running rotation when the work ends.
_END_S = 5.0


def older_names(name: str) -> list[str]:
    """The names of the older files, the newest first, and of a copy that is not complete."""
    return [*(f"{name}.{number}" for number in range(1, KEPT + 1)), f"{name}.part"]


def cut(file: Path, most_bytes: int) -> bool:
    """Moves the content of a file that others have open, in append mode, to an older file; True if
    it had reached `most_bytes`. Raises OSError.
    """
    with file.open("rb") as content:
        if not _reached(content.fileno(), most_bytes):
            return False
        part = file.with_name(f"{file.name}.part")
        with part.open("wb") as copy:
            shutil.copyfileobj(content, copy)
            os.truncate(file, 0)
    _shift(file)
    part.replace(_older(file, 1))
    return True


def renamed(file: Path, descriptor: int, most_bytes: int) -> bool:
    """Renames the regular file behind an own descriptor to an older one; True if it had reached
    `most_bytes`: then open it again. Raises OSError.
    """
    if not _reached(descriptor, most_bytes):
        return False
    _shift(file)
    file.replace(_older(file, 1))
    return True


def is_elsewhere(file: Path, descriptor: int) -> bool:
    """Whether another program has renamed or deleted the file behind an own descriptor."""
    try:
        return not os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return True


@contextmanager
def kept_short(file: Path, most_bytes: int, every_s: float = _EVERY_S) -> Iterator[None]:
    """Cuts the file while the context lasts, in a thread: the work may be waiting for a server."""

    def cut_if_long(_: threading.Event) -> None:
        with suppress(OSError):  # no room, or no file yet: the next time
            cut(file, most_bytes)

    with repeated(cut_if_long, every_s, f"rotate {file.name}", end_s=_END_S):
        yield


def _reached(descriptor: int, most_bytes: int) -> bool:
    facts = os.fstat(descriptor)
    return stat.S_ISREG(facts.st_mode) and facts.st_size >= most_bytes


def _shift(file: Path) -> None:
    """Makes room for a new newest one of the older files; the oldest is replaced."""
    for number in range(KEPT - 1, 0, -1):
        with suppress(FileNotFoundError):
            _older(file, number).replace(_older(file, number + 1))


def _older(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")

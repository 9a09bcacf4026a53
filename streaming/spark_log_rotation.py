"""Keeps the log of Spark and the progress file bounded, which a job appends to for months.

Java and Spark's Python workers keep their file open, and would go on writing to it after it was
renamed. So a file is copied, and cut when the copy is complete, as logrotate's `copytruncate` does;
a line written in between is lost. Log4j's own rotation would leave out the errors of Java itself
and of Python workers, which no logger writes. Imports no Spark.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sinks.graceful_stop import repeated

_EVERY_S = 5.0
#: Longest wait for a running rotation when the work ends.
_END_S = 5.0


def older_names(name: str) -> list[str]:
    """Returns the names of the older files, newest first, and of a copy that is not complete."""
    return [f"{name}.1", f"{name}.2", f"{name}.3", f"{name}.part"]


def cut(file: Path, most_bytes: int) -> None:
    """Moves the content of a regular file that other processes have open in append mode to an older
    file, if it has at least `most_bytes`. Raises OSError.
    """
    if not file.is_file() or file.stat().st_size < most_bytes:
        return
    newest, middle, oldest, part = map(file.with_name, older_names(file.name))
    shutil.copyfile(file, part)
    for newer, older in ((middle, oldest), (newest, middle), (part, newest)):
        if newer.exists():
            newer.replace(older)
    os.truncate(file, 0)


@contextmanager
def keep_short(file: Path, most_bytes: int, every_s: float = _EVERY_S) -> Iterator[None]:
    """Cuts the file again and again while the context lasts, in a thread of its own, because the
    caller may be waiting for a server.
    """

    def cut_if_long(_: threading.Event) -> None:
        with suppress(OSError):  # no room, or no file yet: the next time
            cut(file, most_bytes)

    with repeated(cut_if_long, every_s, f"rotate {file.name}", end_s=_END_S):
        yield

"""Files of a job: keeps the log of Spark and the progress file bounded, which a job appends to for
months; and its temporary folder, which the next job deletes after a kill. Imports no Spark.

Java and Spark's Python workers keep their file open, and would go on writing to it after it was
renamed. So a file is copied, and cut when the copy is complete, as logrotate's `copytruncate` does;
a line written in between is lost. Log4j's own rotation would leave out the errors of Java itself
and of Python workers, which no logger writes.
"""

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sinks.graceful_stop import repeated
from strategies.errors import SettingsError

_EVERY_S = 5.0
#: Longest wait for a running rotation when the work ends.
_END_S = 5.0
_PREFIX = "pulsar-rebalancer-job-"
_LOCK = ".lock"


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


@dataclass(frozen=True, slots=True)
class Temporary:
    """A folder for temporary files, and its lock."""

    folder: Path
    #: File descriptor. The folder is in use until all copies of it are closed, also those of child
    #: processes.
    lock: int


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Temporary]:
    """Makes a folder for Spark's copy of the state and Java's native libraries, and deletes it at
    the end. First deletes such folders in `parent` (by default the machine's folder for temporary
    files) that no process uses any more. Raises SettingsError.
    """
    try:
        parent = parent or Path(tempfile.gettempdir())
        for older in parent.glob(f"{_PREFIX}*"):
            _delete_unused(older)
        # Another job that starts now sees the folder only when it is locked.
        unseen = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent))
        lock = os.open(unseen / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = unseen.rename(parent / unseen.name.removeprefix("."))
    except OSError as error:
        raise SettingsError(
            [
                f"{parent or 'the folder for temporary files'} cannot be written "
                f"({error.strerror}): name another folder in TMPDIR"
            ]
        ) from error
    try:
        yield Temporary(folder, lock)
    finally:
        os.close(lock)
        _delete_unused(folder)


def _delete_unused(folder: Path) -> None:
    """Deletes a folder of this user unless a process holds its lock. Another user's stays: root
    does not see the locks of a container with the same folder for temporary files.
    """
    with suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Anybody can create a link in /tmp.
            if os.fstat(lock).st_uid == os.geteuid() and not folder.is_symlink():
                _delete(folder)
        finally:
            os.close(lock)


def _delete(folder: Path) -> None:
    """Deletes a folder, its lock last, so that the next job finds what cannot be deleted now."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    shutil.rmtree(folder)

"""The temporary folder of a job, which the next job deletes after a kill. Imports no Spark."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from strategies.errors import SettingsError

_PREFIX = "pulsar-rebalancer-job-"
_LOCK = ".lock"


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

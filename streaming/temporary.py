"""The temporary folder of a job: Spark's copy of the state and Java's native libraries. A process
that is killed leaves it; the next job on this machine deletes it. Imports no Spark.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strategies.errors import SettingsError
from streaming.rotation import is_elsewhere

_PREFIX = "pulsar-rebalancer-job-"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Temporary:
    """`lock`: file descriptor; the folder is in use until its last copy is closed, in a child
    process too.
    """

    folder: Path
    lock: int


@contextmanager
def temporary_folder(
    parent: Path | None = None,
    *,
    user: int | None = None,
    flock: Callable[[int, int], None] = fcntl.flock,
) -> Iterator[Temporary]:
    """A new folder of this process, deleted at the end. First deletes those in `parent` (by default
    the machine's folder for temporary files) that no process uses any more. Raises SettingsError.

    `user`: only folders of this user are deleted, by default the one of this process; `flock`:
    locks a file descriptor.
    """
    user = os.geteuid() if user is None else user
    try:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        for left in parent.glob(f"{_PREFIX}*"):
            _delete_unused(left, user)
        made = _made(parent, flock)
    except OSError as error:
        raise SettingsError(
            [
                f"{parent or 'the folder for temporary files'} cannot be written "
                f"({error.strerror}): name another folder in TMPDIR"
            ]
        ) from error
    try:
        yield made
    finally:
        os.close(made.lock)
        _delete_unused(made.folder, user)


def _made(parent: Path, flock: Callable[[int, int], None]) -> Temporary:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        flock(lock, fcntl.LOCK_EX)
        # A job that started at this moment may have found the folder before it was locked.
        if not is_elsewhere(folder / _LOCK, lock):
            return Temporary(folder, lock)
        os.close(lock)


def _delete_unused(folder: Path, user: int) -> None:
    """Deletes a folder of ours unless a process holds its lock. The lock goes last: what cannot be
    deleted now is left to the next job.
    """
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
            return  # anybody can create this name in /tmp
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _LOCK:
                entry.unlink(missing_ok=True)
        if [entry.name for entry in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            folder.rmdir()
    except OSError:
        return
    finally:
        os.close(lock)

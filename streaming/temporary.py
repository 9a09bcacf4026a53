"""The temporary folder of a job: Spark's copy of the state and Java's native libraries. A process
that is killed leaves it; the next job on this machine deletes it. Imports no Spark.
"""

from __future__ import annotations

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
    """`lock`: file descriptor; the folder is in use until its last copy is closed, in a child
    process too.
    """

    folder: Path
    lock: int


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Temporary]:
    """A new folder of this process, deleted at the end. First deletes those in `parent` (by default
    the machine's folder for temporary files) that no process uses any more. Raises SettingsError.
    """
    try:
        parent = parent or Path(tempfile.gettempdir())
        for left in parent.glob(f"{_PREFIX}*"):
            _delete_unused(left)
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
    """The lock goes last: what cannot be deleted now is left to the next job."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    shutil.rmtree(folder)

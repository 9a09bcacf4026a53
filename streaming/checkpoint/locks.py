"""One job at a time in a checkpoint folder: the lock of our process, that of a Java that
`spark-submit` started, and who holds them.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sinks.graceful_stop import wall_clock_ms
from strategies.errors import RebalancerError, SettingsError

_LOCK = ".rebalancer.lock"
#: Locked by Java if it does not inherit the other one: `spark-submit` starts Java first.
JAVA_LOCK = ".rebalancer.java.lock"
LOCKS = (_LOCK, JAVA_LOCK)


class CheckpointInUse(RebalancerError):
    """Another job uses the folder."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that uses a checkpoint: process id, host, and time of its start (ms since the
    epoch).
    """

    pid: int
    host: str
    since_ms: int


@contextmanager
def locked(folder: Path, timeout_s: float) -> Iterator[int]:
    """Makes the folder and locks it; gives the lock's file descriptor. `timeout_s`: longest wait
    for a job that is just ending. Raises CheckpointInUse, SettingsError.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        lock = _opened(folder)
        try:
            _wait_for(lock, folder, deadline)
            # The folder may have been replaced meanwhile, as by `rebalancer state repartition`.
            if _is_there(folder / _LOCK, lock):
                yield lock
                return
        finally:
            os.close(lock)


def used_by_another(folder: Path) -> str:
    """Returns the sentence for a folder that is in use."""
    return f"another job uses the checkpoint {folder}: stop it first, or name another folder"


def holder(folder: Path) -> Holder | None:
    """Returns the process that uses a folder; None if it runs a version that does not record
    itself.
    """
    try:
        tree = json.loads((folder / _LOCK).read_bytes())
        return Holder(int(tree["pid"]), str(tree["host"]), int(tree["since_ms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sign_lock(lock: int) -> None:
    """Records this process for people who find the folder in use. Ignores failed writes: the lock
    is what excludes other jobs.
    """
    text = json.dumps(
        {"pid": os.getpid(), "host": socket.gethostname(), "since_ms": wall_clock_ms()}
    ).encode()
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, text, 0)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SettingsError(
            [
                f"job.checkpoint: {folder} cannot be written ({error.strerror}); name a "
                "folder of yours"
            ]
        ) from error


def _is_there(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _wait_for(lock: int, folder: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _check_no_java(folder)
        except (BlockingIOError, PermissionError) as error:
            if time.monotonic() >= deadline:
                raise CheckpointInUse(used_by_another(folder)) from error
        time.sleep(0.1)


def _check_no_java(folder: Path) -> None:
    """Raises BlockingIOError or PermissionError, depending on the system, while Java has its lock
    (of the kind that Java has: fcntl).
    """
    try:
        file = os.open(folder / JAVA_LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(file)

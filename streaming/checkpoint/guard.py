"""Guards a checkpoint folder: one job at a time, with the settings and the version that made its
state. Imports no Spark.

Without it Spark would continue a checkpoint under any settings, with part of the old ones, and two
jobs could share one.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sinks.graceful_stop import wall_clock_ms
from strategies.errors import RebalancerError, SettingsError, StateVersionError
from streaming.checkpoint.remembered_and_changed_settings import (
    DRAFT,
    GUARD,
    MAY_CHANGE,
    NEW_CHECKPOINT,
    NO_WARMING,
    PARTITIONS,
    RUNTIME,
    Change,
    Guard,
    Warming,
    differing_settings,
    read_guard,
    write_guard,
    written_guard,
)
from streaming.checkpoint.spark_checkpoint_files import committed_batch, moved_aside, name_schemas
from streaming.job_files import older_names
from streaming.settings import JobSettings, local_path
from streaming.start_lines import START_LINES

_LOCK = ".rebalancer.lock"
#: Locked by Java if it does not inherit the other one: `spark-submit` starts Java first.
JAVA_LOCK = ".rebalancer.java.lock"
LOCKS = (_LOCK, JAVA_LOCK)
SPARK_LOG = "spark.log"
#: Our packages, as Spark's remote workers receive them.
CODE = "pulsar-rebalancer-py-files.zip"
_OURS = (GUARD, SPARK_LOG, *older_names(SPARK_LOG), CODE, DRAFT, START_LINES, *LOCKS)
_UNFINISHED_BATCH = (
    "contains an unfinished micro-batch, which must be repeated unchanged: run once with the "
    "old settings and --drain, then start "
    "with the new ones"
)


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


@dataclass(frozen=True, slots=True)
class Held:
    """A locked checkpoint folder. `lock`: file descriptor; the lock lasts until its last copy is
    closed; `guard`: as it is in the folder now; `change`: permitted changes of settings since the
    last start; `aside`: where the state of another format is now, if this start has moved it.
    """

    lock: int
    guard: Guard
    change: Change | None = None
    aside: Path | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the commands."""
        return self.guard.epoch

    def lines(self) -> Iterator[str]:
        """Yields lines for the log."""
        if self.aside is not None:
            yield f"state of another format: the checkpoint of before is in {self.aside} now"
        yield f"epoch {self.epoch}: executors refuse commands of older epochs"
        if self.change is not None:
            yield from self.change.lines()


def checkpoint_folder(job: JobSettings) -> Path:
    """Returns the folder as a path. Raises SettingsError for locations that are not on this
    machine.
    """
    folder = local_path(job.checkpoint)
    if folder is None:
        shared = (
            "on a Spark cluster, one that all workers mount, like NFS; object stores and HDFS can "
            "hold its back-ups only"
        )
        raise SettingsError(
            [
                f"job.checkpoint: {job.checkpoint!r} is not a folder on this machine; write a path "
                f"or file:///folder ({shared})"
            ]
        )
    return folder


@contextmanager
def guarded(
    folder: Path,
    guard: Guard,
    next_epoch: Callable[[], int] = lambda: 1,
    *,
    warming: Warming = NO_WARMING,
    timeout_s: float = 20.0,
    keep: bool = True,
) -> Iterator[Held]:
    """Locks the folder for one job. A checkpoint keeps its epoch while its settings are the same:
    repeated commands then have equal ids.

    `next_epoch`: called for a new checkpoint and after changed settings; `guard` may require a
    higher one. `warming`: how a new checkpoint begins; with it, state of another format is moved
    aside for one. `timeout_s`: longest wait for a job that is just ending. `keep`: record changed
    settings, and move state aside. Raises CheckpointInUse, StateVersionError, SettingsError, and
    the errors of `next_epoch` and `warming`.
    """
    with locked(folder, timeout_s) as lock:
        aside, written = None, written_guard(folder)
        if written is None or written.state == guard.state or not (keep and warming.minutes):
            guard, change = _check_or_begin(folder, written, guard, next_epoch, warming)
        else:
            # Decided first, which takes minutes or fails: the old guard has the epoch.
            guard = _begun(guard.at_least(written.epoch + 1), next_epoch, warming)
            aside, change = _aside(folder, written), None
            write_guard(folder / GUARD, guard)
        if change is not None and keep:
            guard = guard.at_least(max(next_epoch(), change.epoch + 1))
            write_guard(folder / GUARD, guard)
        if keep:
            name_schemas(folder, folder)
            sign_lock(lock)
        yield Held(lock, guard, change, aside)


def other_settings(folder: Path, guard: Guard) -> list[str]:
    """Paths of the settings whose values differ from those of the checkpoint. Raises
    StateVersionError.
    """
    written = read_guard(folder)
    return differing_settings(written, guard.after(written))


def foreign_names(folder: Path) -> list[str]:
    """Returns the names of entries in a folder that no new checkpoint has."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in _OURS)


def _check_or_begin(
    folder: Path,
    written: Guard | None,
    guard: Guard,
    next_epoch: Callable[[], int],
    warming: Warming,
) -> tuple[Guard, Change | None]:
    """Returns the guard from now on, and the changes since the last start."""
    if written is not None:
        return _continue(folder, written, guard.after(written), warming)
    foreign = foreign_names(folder)
    if foreign:
        raise StateVersionError(
            f"{folder} contains {', '.join(foreign[:3])} but no {GUARD}: it is not a "
            f"checkpoint of this program; {NEW_CHECKPOINT}"
        )
    begun = _begun(guard, next_epoch, warming)
    write_guard(folder / GUARD, begun)
    return begun, None


def _begun(guard: Guard, next_epoch: Callable[[], int], warming: Warming) -> Guard:
    """Returns the guard of a new checkpoint."""
    return replace(guard.at_least(next_epoch()), warm=warming.decide())


def _continue(
    folder: Path, written: Guard, now: Guard, warming: Warming
) -> tuple[Guard, Change | None]:
    if written.state != now.state:
        raise StateVersionError(
            f"the checkpoint {folder} was written by version {written.product} in state "
            f"format {_versions(written)}; version {now.product} "
            f"continues format {_versions(now)} only: go back to the version that wrote it, "
            f"or {NEW_CHECKPOINT} ({warming.in_words})"
        )
    differing = differing_settings(written, now)
    if not differing:
        return written, None
    complaints = [
        *(
            f"{path}: {_shown(now, path)}, but the checkpoint was written with "
            f"{_shown(written, path)}"
            for path in differing
        ),
        *_advice(differing, now),
    ]
    if not all(path.startswith(MAY_CHANGE) for path in differing):
        raise SettingsError(
            [
                *complaints,
                f"job.checkpoint: {folder} was written with other settings: restore them, or "
                f"{NEW_CHECKPOINT} ({warming.in_words})",
            ]
        )
    batch = committed_batch(folder)
    if batch is None:
        raise SettingsError([*complaints, f"job.checkpoint: {folder} {_UNFINISHED_BATCH}"])
    return now, Change(
        batch,
        written.epoch,
        {path: (written.settings.get(path), now.settings.get(path)) for path in differing},
    )


def _aside(folder: Path, written: Guard) -> Path:
    """Moves a checkpoint of another state format aside. Returns its new folder."""
    try:
        return moved_aside(folder, written.state, GUARD, LOCKS)
    except OSError as error:
        raise StateVersionError(
            f"the checkpoint {folder} was written by version {written.product} in another state "
            f"format, and cannot be moved aside ({error.strerror}): move it yourself, or "
            f"{NEW_CHECKPOINT}"
        ) from error


def _advice(differing: list[str], now: Guard) -> Iterator[str]:
    if PARTITIONS in differing:
        yield (
            f"{PARTITIONS}: give the checkpoint this number, with its state: rebalancer state "
            f"repartition --partitions {now.settings[PARTITIONS]}"
        )
    if any(path.startswith(RUNTIME) for path in differing):
        yield (
            f"{RUNTIME}*: the Python and numpy that run the job; the old ones are in the "
            "installation or image that wrote the checkpoint, and count as old settings here"
        )


def _shown(guard: Guard, path: str) -> str:
    return json.dumps(guard.settings[path]) if path in guard.settings else "nothing"


def _versions(guard: Guard) -> str:
    return ", ".join(f"{part} {version}" for part, version in sorted(guard.state.items()))

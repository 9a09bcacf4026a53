"""Guards a checkpoint folder: one job at a time, with the settings and the version that made its
state. Imports no Spark.

Without it Spark would continue a checkpoint under any settings, with part of the old ones, and two
jobs could share one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sinks.topics.files.segments import sync_folder
from sinks.wall_clock import wall_clock_ms
from strategies.engine import EngineSettings, placement_of
from strategies.errors import RebalancerError, SettingsError, StateVersionError
from strategies.java.release_defaults import PULSAR_VERSION, RELEASES
from strategies.state import STATE_VERSION
from streaming.checkpoint.moved_aside import moved_aside
from streaming.checkpoint.settings_changes import committed_batch, may_change
from streaming.checkpoint.warm_start import NO_WARMING, Warming, WarmStart
from streaming.rotation import older_names
from streaming.settings import JobSettings

GUARD = "rebalancer.json"
SPARK_LOG = "spark.log"
#: Our packages, as Spark's remote workers receive them.
CODE = "pulsar-rebalancer-py-files.zip"
_DRAFT = "rebalancer.draft"
_LOCK = ".rebalancer.lock"
#: Held by Java if it does not inherit the other one: `spark-submit` starts Java first.
_JAVA_LOCK = ".rebalancer.java.lock"
_LOCKS = (_LOCK, _JAVA_LOCK)
_OURS = (GUARD, SPARK_LOG, *older_names(SPARK_LOG), CODE, _DRAFT, *_LOCKS)
_FORMAT = 1
#: Version of the rows of the state (see `streaming.state.rows`). Raise it with every change that
#: cannot read older rows.
ROWS_VERSION = 8
_EPOCH = "round.epoch"
#: `auto` in the settings of a start takes the number of the checkpoint.
PARTITIONS = "job.shuffle_partitions"
_UNFINISHED_BATCH = (
    "contains an unfinished micro-batch, which must be repeated unchanged: run once with the "
    "old settings and --drain, then start "
    "with the new ones"
)
_NEW_CHECKPOINT = "name a new folder as job.checkpoint"


class CheckpointInUse(RebalancerError):
    """Another job uses the folder."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Change:
    """Settings changed under a checkpoint. `batch`, `epoch`: the last ones with the old settings;
    `settings`: path → before, after.
    """

    batch: int
    epoch: int
    settings: Mapping[str, Any]

    def lines(self) -> Iterator[str]:
        """One line of text per setting."""
        for path, (before, after) in self.settings.items():
            yield (
                f"{path}: {json.dumps(after)} from here on; it was {json.dumps(before)} in epoch "
                f"{self.epoch}, up to micro-batch {self.batch}"
            )


@dataclass(frozen=True, slots=True)
class Guard:
    """Content of the guard file. `state`: versions of the parts of the state; `settings`: dotted
    path → value; `changes`: oldest first; `warm`: what the checkpoint reads, or has read, without
    publishing.

    `digest` detects edited files.
    """

    product: str
    state: Mapping[str, int]
    settings: Mapping[str, Any]
    changes: tuple[Change, ...] = ()
    warm: WarmStart | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()

    @property
    def epoch(self) -> int:
        """The epoch of the checkpoint's commands; in the guard of the present settings, the lowest
        acceptable epoch.
        """
        return int(self.settings[_EPOCH])

    def at_least(self, epoch: int) -> Guard:
        """The guard with this epoch, unless its own is higher."""
        return replace(self, settings={**self.settings, _EPOCH: max(epoch, self.epoch)})

    def after(self, written: Guard) -> Guard:
        """The guard of a start that continues a checkpoint: its epoch or a higher one, and its
        number of partitions if that is `auto`, what it has read without publishing, and its
        changes.
        """
        partitions = self.settings[PARTITIONS]
        if partitions == "auto":
            partitions = written.settings.get(PARTITIONS)
        continued = replace(
            self,
            settings={**self.settings, PARTITIONS: partitions},
            changes=written.changes,
            warm=written.warm,
        )
        return continued.at_least(written.epoch)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that uses a checkpoint: process id, host, and time of its start (ms since the
    epoch).
    """

    pid: int
    host: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """A locked checkpoint folder. `lock`: file descriptor; the lock lasts until its last copy is
    closed; `epoch`: of the commands.

    `change`: permitted changes of settings since the last start; `warm`: what is read without
    publishing; `aside`: where the state of another format is now, if this start has moved it.
    """

    lock: int
    epoch: int
    change: Change | None = None
    warm: WarmStart | None = None
    aside: Path | None = None


def checkpoint_folder(job: JobSettings) -> Path:
    """The folder as a path. Raises SettingsError for locations that are not on this machine."""
    text = job.checkpoint
    parts = urlsplit(text)
    if parts.scheme not in ("", "file") or not text:
        shared = (
            "on a Spark cluster, one that all workers mount, like NFS; object stores and HDFS can "
            "hold its back-ups only"
        )
        raise SettingsError(
            [
                f"job.checkpoint: {text!r} is not a folder on this machine; write a path or "
                f"file:///folder ({shared})"
            ]
        )
    return Path(unquote(parts.path) if parts.scheme else text).absolute()


def guard_of(job: JobSettings, engine: EngineSettings) -> Guard:
    """The guard of a new checkpoint."""
    settings: dict[str, Any] = {"shedding.strategy": engine.strategy, "shedding.mode": engine.mode}
    settings[PULSAR_VERSION] = engine.pulsar_version
    for section, values in (
        (f"shedding.{engine.strategy}", engine.chosen),
        ("weights", engine.weights),
        ("round", engine.round),
        ("placement", engine.destinations),
        ("filters", engine.filters),
        ("limits", engine.limits),
        ("splitting", engine.splitting),
        ("throttling", engine.throttling),
        ("drains", engine.drains),
        ("rivals", engine.rivals),
        ("bulkhead", engine.bulkhead),
    ):
        settings |= _dotted(section, values)
    placement, placing = placement_of(engine)
    settings |= {"placement.strategy": engine.placement} | _dotted(
        f"placement.{placement}", placing
    )
    settings["topics.telemetry"] = job.connections.topics.telemetry.identity
    settings[PARTITIONS] = job.shuffle_partitions
    return Guard(
        engine.version,
        {"cluster": STATE_VERSION, "rows": ROWS_VERSION},
        json.loads(json.dumps(settings)),
    )


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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SettingsError(
            [
                f"job.checkpoint: {folder} cannot be written ({error.strerror}); name a "
                "folder of yours"
            ]
        ) from error
    try:
        _wait_for(lock, folder, timeout_s)
        aside = _other_format_aside(folder, guard) if keep and warming.minutes else None
        guard, change = _check_or_begin(folder, guard, next_epoch, warming)
        if change is not None and keep:
            guard = replace(guard, changes=(*guard.changes, change)).at_least(
                max(next_epoch(), change.epoch + 1)
            )
            write_guard(folder / GUARD, guard)
        if keep:
            _sign(lock)
        yield Held(lock, guard.epoch, change, guard.warm, aside)
    finally:
        os.close(lock)


def read_guard(folder: Path) -> Guard:
    """Reads the guard file. Raises StateVersionError if the folder is not a checkpoint of this
    program or the file is damaged.
    """
    path = folder / GUARD
    try:
        tree = json.loads(path.read_bytes())
        version, digest = tree["format"], tree["digest"]
        changes = tuple(
            Change(int(one["batch"]), int(one["epoch"]), dict(one["settings"]))
            for one in tree.get("changes", ())
        )
        warm = WarmStart.of_tree(tree["warm_start"]) if "warm_start" in tree else None
        guard = Guard(
            str(tree["product"]), dict(tree["state"]), dict(tree["settings"]), changes, warm
        )
    except FileNotFoundError as error:
        raise StateVersionError(
            f"{folder} is not a checkpoint of this program: it has no {GUARD}; {_NEW_CHECKPOINT}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateVersionError(
            f"{path} cannot be read ({error}): restore it from a backup, or {_NEW_CHECKPOINT}"
        ) from error
    if version != _FORMAT:
        raise StateVersionError(
            f"{path} is of format {version}, this version reads format {_FORMAT}: use the "
            f"version that wrote it, or {_NEW_CHECKPOINT}"
        )
    if digest != guard.digest:
        raise StateVersionError(
            f"{path} was changed (its digest differs): restore it from a backup, or "
            f"{_NEW_CHECKPOINT}"
        )
    # A guard without the release is older than this setting.
    return replace(guard, settings={PULSAR_VERSION: RELEASES[0], **guard.settings})


def java_lock(folder: Path) -> Path:
    """The file that a Java process locks which `spark-submit` started."""
    return folder / _JAVA_LOCK


def used_by_another(folder: Path) -> str:
    """The sentence for a folder that is in use."""
    return f"another job uses the checkpoint {folder}: stop it first, or name another folder"


def holder(folder: Path) -> Holder | None:
    """The process that uses a folder; None if it runs a version that does not record itself."""
    try:
        tree = json.loads((folder / _LOCK).read_bytes())
        return Holder(int(tree["pid"]), str(tree["host"]), int(tree["since_ms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def other_settings(folder: Path, guard: Guard) -> list[str]:
    """Paths of the settings whose values differ from those of the checkpoint. Raises
    StateVersionError.
    """
    written = read_guard(folder)
    return _differing(written, guard.after(written))


def _sign(lock: int) -> None:
    """Records this process for people who find the folder in use. Ignores failed writes: the lock
    is what excludes other jobs.
    """
    text = json.dumps(
        {"pid": os.getpid(), "host": socket.gethostname(), "since_ms": wall_clock_ms()}
    ).encode()
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, text, 0)


def _wait_for(lock: int, folder: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
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
        file = os.open(java_lock(folder), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(file)


def _check_or_begin(
    folder: Path, guard: Guard, next_epoch: Callable[[], int], warming: Warming
) -> tuple[Guard, Change | None]:
    """The guard from now on, and the changes since the last start."""
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in _OURS)
    if (folder / GUARD).exists():
        written = read_guard(folder)
        return _continue(folder, written, guard.after(written), warming)
    if foreign:
        raise StateVersionError(
            f"{folder} contains {', '.join(foreign[:3])} but no {GUARD}: it is not a "
            f"checkpoint of this program; {_NEW_CHECKPOINT}"
        )
    begun = replace(guard.at_least(next_epoch()), warm=warming.decide())
    write_guard(folder / GUARD, begun)
    return begun, None


def _continue(
    folder: Path, written: Guard, now: Guard, warming: Warming
) -> tuple[Guard, Change | None]:
    if written.state != now.state:
        raise StateVersionError(
            f"the checkpoint {folder} was written by version {written.product} in state "
            f"format {_versions(written)}; version {now.product} "
            f"continues format {_versions(now)} only: go back to the version that wrote it, "
            f"or {_NEW_CHECKPOINT} ({warming.in_words})"
        )
    differing = _differing(written, now)
    if not differing:
        return written, None
    complaints = [
        f"{path}: {_shown(now, path)}, but the checkpoint was written with {_shown(written, path)}"
        for path in differing
    ]
    if not all(map(may_change, differing)):
        raise SettingsError(
            [
                *complaints,
                *_repartition_advice(differing, now),
                f"job.checkpoint: {folder} was written with other settings: restore them, or "
                f"{_NEW_CHECKPOINT} ({warming.in_words})",
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


def _other_format_aside(folder: Path, guard: Guard) -> Path | None:
    """Where the checkpoint is now, if its state has another format."""
    if not (folder / GUARD).exists() or (written := read_guard(folder)).state == guard.state:
        return None
    try:
        return moved_aside(folder, written.state, GUARD, _LOCKS)
    except OSError as error:
        raise StateVersionError(
            f"the checkpoint {folder} was written by version {written.product} in another state "
            f"format, and cannot be moved aside ({error.strerror}): move it yourself, or "
            f"{_NEW_CHECKPOINT}"
        ) from error


def _repartition_advice(differing: list[str], now: Guard) -> list[str]:
    if PARTITIONS not in differing:
        return []
    return [
        f"{PARTITIONS}: give the checkpoint this number, with its state: rebalancer state "
        f"repartition --partitions {now.settings[PARTITIONS]}"
    ]


def _differing(written: Guard, now: Guard) -> list[str]:
    """Dotted paths that differ; for a changed strategy only its name, not all its settings."""
    missing = object()
    paths = [*now.settings, *(path for path in written.settings if path not in now.settings)]
    differing = [
        path
        for path in paths
        if written.settings.get(path, missing) != now.settings.get(path, missing)
    ]
    if "shedding.strategy" not in differing:
        return differing
    return [path for path in differing if path.count(".") < 2]


def _shown(guard: Guard, path: str) -> str:
    return json.dumps(guard.settings[path]) if path in guard.settings else "nothing"


def _versions(guard: Guard) -> str:
    return ", ".join(f"{part} {version}" for part, version in sorted(guard.state.items()))


def write_guard(path: Path, guard: Guard) -> None:
    """Writes atomically: a killed job leaves no partial guard."""
    changes = [asdict(change) for change in guard.changes]
    tree = {
        "format": _FORMAT,
        "product": guard.product,
        "state": guard.state,
        "digest": guard.digest,
        "settings": guard.settings,
        **({"changes": changes} if changes else {}),
        **({} if guard.warm is None else {"warm_start": guard.warm.tree()}),
    }
    draft = path.with_name(_DRAFT)
    with draft.open("w", encoding="utf-8") as file:
        file.write(json.dumps(tree, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def _dotted(section: str, values: Any) -> dict[str, Any]:
    tree = asdict(values) if is_dataclass(values) and not isinstance(values, type) else {}
    return {f"{section}.{key}": value for key, value in tree.items()}

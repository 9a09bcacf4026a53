"""Guards a checkpoint folder: one job at a time, and only with the settings and the version its state was made with. No Spark here.

Spark would go on with a checkpoint under any settings and decide half by the old ones; and it would let two jobs share one.
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

from sinks.topics.uri import parse_topic
from strategies.engine import EngineSettings, placement_of
from strategies.errors import RebalancerError, SettingsError, StateVersionError
from strategies.state import STATE_VERSION
from streaming.checkpoint.settings_changes import committed_batch, may_change
from streaming.settings import JobSettings

GUARD = "rebalancer.json"
SPARK_LOG = "spark.log"
#: Our packages, as Spark's workers on other machines get them.
CODE = "pulsar-rebalancer-py-files.zip"
_DRAFT = "rebalancer.draft"
_LOCK = ".rebalancer.lock"
_OURS = (GUARD, SPARK_LOG, CODE, _DRAFT, _LOCK)
_FORMAT = 1
#: Version of the rows of the state (see `state_rows`). Raise it with every change there that older rows cannot be read with.
ROWS_VERSION = 5
_EPOCH = "round.epoch"
_HALF_DONE = (
    "holds a micro-batch that was begun and must be repeated as it was: run once with the old settings and --drain, then start "
    "with the new ones"
)
_AFRESH = "name a new folder as job.checkpoint (averages and hit counts then start afresh)"


class CheckpointInUse(RebalancerError):
    """Another job holds the folder."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Change:
    """Settings that were changed under a checkpoint. `batch`, `epoch`: the last under the old ones; `settings`: path → before, after."""

    batch: int
    epoch: int
    settings: Mapping[str, Any]

    def lines(self) -> Iterator[str]:
        """For people: one per setting."""
        for path, (before, after) in self.settings.items():
            until = f"in epoch {self.epoch}, up to micro-batch {self.batch}"
            yield f"{path}: {json.dumps(after)} from here on; it was {json.dumps(before)} {until}"


@dataclass(frozen=True, slots=True)
class Guard:
    """What the guard file says. `state`: versions of the parts of the state; `settings`: dotted path → value; `changes`, oldest first."""

    product: str
    state: Mapping[str, int]
    settings: Mapping[str, Any]
    changes: tuple[Change, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()

    @property
    def epoch(self) -> int:
        """The epoch of the checkpoint's commands; in the guard of settings, the lowest that is wanted."""
        return int(self.settings[_EPOCH])

    def at_least(self, epoch: int) -> Guard:
        """The same with this epoch, unless its own is higher."""
        return replace(self, settings={**self.settings, _EPOCH: max(epoch, self.epoch)})


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a checkpoint: its id, its machine, and when it took the folder (ms since the epoch)."""

    pid: int
    host: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """A folder that is ours. `lock`: the file descriptor of the lock, held until its last copy is closed; `epoch`: of the commands.

    `change`: settings that are others than at the last start, and may be.
    """

    lock: int
    epoch: int
    change: Change | None = None


def checkpoint_folder(job: JobSettings) -> Path:
    """The folder as a path. Raises SettingsError for places that are not on this machine."""
    text = job.checkpoint
    parts = urlsplit(text)
    if parts.scheme not in ("", "file") or not text:
        shared = "on a Spark cluster, one that all workers mount, like NFS; object stores and HDFS can hold its back-ups only"
        raise SettingsError([f"job.checkpoint: {text!r} is not a folder of this machine; write a path or file:///folder ({shared})"])
    return Path(unquote(parts.path) if parts.scheme else text).absolute()


def guard_of(job: JobSettings, engine: EngineSettings) -> Guard:
    """The guard of a checkpoint that begins now."""
    settings: dict[str, Any] = {"shedding.strategy": engine.strategy, "shedding.mode": engine.mode}
    for section, values in (
        (f"shedding.{engine.strategy}", engine.chosen),
        ("weights", engine.weights),
        ("round", engine.round),
        ("placement", engine.destinations),
        ("filters", engine.filters),
        ("limits", engine.limits),
        ("splitting", engine.splitting),
        ("throttling", engine.throttling),
    ):
        settings |= _dotted(section, values)
    placement, placing = placement_of(engine)
    settings |= {"placement.strategy": engine.placement} | _dotted(f"placement.{placement}", placing)
    settings["topics.telemetry"] = parse_topic(job.topics.telemetry).identity
    settings["job.shuffle_partitions"] = job.shuffle_partitions
    return Guard(engine.version, {"cluster": STATE_VERSION, "rows": ROWS_VERSION}, json.loads(json.dumps(settings)))


@contextmanager
def guarded(
    folder: Path, guard: Guard, next_epoch: Callable[[], int] = lambda: 1, *, patience_s: float = 20.0, keep: bool = True
) -> Iterator[Held]:
    """Holds the folder for one job. A checkpoint keeps its epoch while its settings stay, so that what is published again has the same ids.

    `next_epoch`: asked when the checkpoint begins and when settings have changed; `guard` may want a higher one. `patience_s`: how long
    a job that is just ending is waited for. `keep`: write down which settings have changed. Raises CheckpointInUse, StateVersionError,
    SettingsError, and what `next_epoch` raises.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SettingsError([f"job.checkpoint: {folder} cannot be written ({error.strerror}); name a folder of yours"]) from error
    try:
        _wait_for(lock, folder, patience_s)
        guard, change = _check_or_begin(folder, guard, next_epoch)
        if change is not None and keep:
            guard = replace(guard, changes=(*guard.changes, change)).at_least(max(next_epoch(), change.epoch + 1))
            _write(folder / GUARD, guard)
        if keep:
            _sign(lock)
        yield Held(lock, guard.epoch, change)
    finally:
        os.close(lock)


def read_guard(folder: Path) -> Guard:
    """Raises StateVersionError when the folder is no checkpoint of this program or its guard file is damaged."""
    path = folder / GUARD
    try:
        tree = json.loads(path.read_bytes())
        version, digest = tree["format"], tree["digest"]
        changes = tuple(Change(int(one["batch"]), int(one["epoch"]), dict(one["settings"])) for one in tree.get("changes", ()))
        guard = Guard(str(tree["product"]), dict(tree["state"]), dict(tree["settings"]), changes)
    except FileNotFoundError as error:
        raise StateVersionError(f"{folder} is not a checkpoint of this program: it has no {GUARD}; {_AFRESH}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateVersionError(f"{path} cannot be read ({error}): bring it back from a copy, or {_AFRESH}") from error
    if version != _FORMAT:
        raise StateVersionError(
            f"{path} is of format {version}, this version knows format {_FORMAT}: use the version that wrote it, or {_AFRESH}"
        )
    if digest != guard.digest:
        raise StateVersionError(f"{path} was changed (its digest differs): bring it back from a copy, or {_AFRESH}")
    return guard


def holder(folder: Path) -> Holder | None:
    """Who holds a folder that is in use; None where a version that did not say so took it."""
    try:
        tree = json.loads((folder / _LOCK).read_bytes())
        return Holder(int(tree["pid"]), str(tree["host"]), int(tree["since_ms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def other_settings(folder: Path, guard: Guard) -> list[str]:
    """Paths of the settings that the checkpoint was written with other values of. Raises StateVersionError."""
    written = read_guard(folder)
    return _differing(written, guard.at_least(written.epoch))


def _sign(lock: int) -> None:
    """For people who find the folder in use. The lock is what keeps others out, so a file that cannot be written is no reason to stop."""
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since_ms": time.time_ns() // 1_000_000}).encode()
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, text, 0)


def _wait_for(lock: int, folder: Path, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise CheckpointInUse(f"another job uses the checkpoint {folder}: stop it first, or name another folder") from error
        time.sleep(0.1)


def _check_or_begin(folder: Path, guard: Guard, next_epoch: Callable[[], int]) -> tuple[Guard, Change | None]:
    """The guard that holds from now on, and what changed since the last start."""
    strangers = sorted(entry.name for entry in folder.iterdir() if entry.name not in _OURS)
    if (folder / GUARD).exists():
        written = read_guard(folder)
        return _go_on(folder, written, replace(guard.at_least(written.epoch), changes=written.changes))
    if strangers:
        raise StateVersionError(f"{folder} holds {', '.join(strangers[:3])} but no {GUARD}: it is no checkpoint of this program; {_AFRESH}")
    begun = guard.at_least(next_epoch())
    _write(folder / GUARD, begun)
    return begun, None


def _go_on(folder: Path, written: Guard, now: Guard) -> tuple[Guard, Change | None]:
    if written.state != now.state:
        raise StateVersionError(
            f"the checkpoint {folder} was written by version {written.product} in state format {_versions(written)}; version {now.product} "
            f"continues format {_versions(now)} only: go back to the version that wrote it, or {_AFRESH}"
        )
    differing = _differing(written, now)
    if not differing:
        return written, None
    complaints = [f"{path}: {_shown(now, path)}, but the checkpoint was written with {_shown(written, path)}" for path in differing]
    if not all(map(may_change, differing)):
        raise SettingsError([*complaints, f"job.checkpoint: {folder} belongs to these other settings: go back to them, or {_AFRESH}"])
    batch = committed_batch(folder)
    if batch is None:
        raise SettingsError([*complaints, f"job.checkpoint: {folder} {_HALF_DONE}"])
    return now, Change(batch, written.epoch, {path: (written.settings.get(path), now.settings.get(path)) for path in differing})


def _differing(written: Guard, now: Guard) -> list[str]:
    """Dotted paths; of two different strategies only the choice itself, not all their settings."""
    missing = object()
    paths = [*now.settings, *(path for path in written.settings if path not in now.settings)]
    differing = [path for path in paths if written.settings.get(path, missing) != now.settings.get(path, missing)]
    if "shedding.strategy" not in differing:
        return differing
    return [path for path in differing if path.count(".") < 2]


def _shown(guard: Guard, path: str) -> str:
    return json.dumps(guard.settings[path]) if path in guard.settings else "nothing"


def _versions(guard: Guard) -> str:
    return ", ".join(f"{part} {version}" for part, version in sorted(guard.state.items()))


def _write(path: Path, guard: Guard) -> None:
    """All or nothing: a job killed while it writes leaves no half guard."""
    changes = [asdict(change) for change in guard.changes]
    tree = {"format": _FORMAT, "product": guard.product, "state": guard.state, "digest": guard.digest, "settings": guard.settings}
    tree |= {"changes": changes} if changes else {}
    draft = path.with_name(_DRAFT)
    with draft.open("w", encoding="utf-8") as file:
        file.write(json.dumps(tree, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _dotted(section: str, values: Any) -> dict[str, Any]:
    tree = asdict(values) if is_dataclass(values) and not isinstance(values, type) else {}
    return {f"{section}.{key}": value for key, value in tree.items()}

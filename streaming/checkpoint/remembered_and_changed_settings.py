"""The settings that a checkpoint remembers in its guard file, which of them may change, and how
they have changed; the formats of its state, and what it first reads without publishing. Imports no
Spark.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sinks.durable_files import write_durably
from sinks.topics.pulsar.partition import MessageId
from strategies.errors import StateVersionError
from strategies.fold.engine import EngineSettings, placement_of
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, RELEASES
from streaming.settings import JobSettings
from streaming.state.state_to_bytes import STATE_VERSION

GUARD = "rebalancer.json"
DRAFT = "rebalancer.draft"
_FORMAT = 1
#: Version of the rows of the state (see `streaming.state.state_to_bytes`). Raise it with every
#: change that cannot read older rows.
ROWS_VERSION = 9
#: Versions of the parts of the state that this program reads and writes.
STATE_FORMAT = {"cluster": STATE_VERSION, "rows": ROWS_VERSION}
_EPOCH = "round.epoch"
#: A removed setting: filters always apply.
_FILTERS = "filters.enabled"
#: `auto` in the settings of a start takes the number of the checkpoint.
PARTITIONS = "job.shuffle_partitions"
NEW_CHECKPOINT = "name a new folder as job.checkpoint"
#: Minor versions of what calculates: another one may round sums differently.
RUNTIME = "runtime."
_CALCULATES = {
    f"{RUNTIME}python": f"{sys.version_info.major}.{sys.version_info.minor}",
    f"{RUNTIME}numpy": ".".join(np.__version__.split(".")[:2]),
}
#: What may change under a checkpoint: sections with limits of a round, capacities, when a cluster
#: is forgotten, and the versions of Python and numpy. Hit counts and clocks do not depend on them;
#: averages of usage follow other capacities, or begin again. The memory of a strategy depends on
#: its settings. A repeated micro-batch must run with the settings of its first attempt: same ids,
#: same bytes.
MAY_CHANGE = (
    "capacities.",
    "limits.",
    "filters.",
    "throttling.",
    "drains.",
    "rivals.",
    "bulkhead.",
    "round.forget_cluster_after_days",
    RUNTIME,
)


@dataclass(frozen=True, slots=True)
class Change:
    """Settings changed under a checkpoint. `batch`, `epoch`: the last ones with the old settings;
    `settings`: path → before, after.
    """

    batch: int
    epoch: int
    settings: Mapping[str, Any]

    def lines(self) -> Iterator[str]:
        """Yields one line of text per setting."""
        for path, (before, after) in self.settings.items():
            yield (
                f"{path}: {json.dumps(after)} from here on; it was {json.dumps(before)} in epoch "
                f"{self.epoch}, up to micro-batch {self.batch}"
            )


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The telemetry that a new checkpoint reads without publishing. Decided once, before the first
    micro-batch, so that a start after a kill continues with the same boundary.
    """

    #: Reading begins with records of this time (ms since the epoch).
    since_ms: int
    #: Partition → offset of its first record whose rows are published; in other partitions, the
    #: rows of all records are.
    until: Mapping[int, int]
    #: All records before `until` have been committed.
    done: bool = False

    def passed(self, end: str | None) -> bool:
        """True if a micro-batch reached `until` in all partitions. `end`: its end offset, as Spark
        reports it.
        """
        try:
            reached = _reached(json.loads(end or ""))
            return all(reached(*first) for first in self.until.items())
        except (TypeError, ValueError, KeyError, AttributeError):
            return False


@dataclass(frozen=True, slots=True)
class Warming:
    """The rules by which a new checkpoint fills its memory."""

    #: Minutes of telemetry that it reads without publishing; 0 for none.
    minutes: int = 0
    #: Called before its guard file is written; returns None if all rows are published.
    decide: Callable[[], WarmStart | None] = field(default=lambda: None)

    @property
    def in_words(self) -> str:
        """A phrase about averages and hit counts, for people who must name a new checkpoint."""
        if not self.minutes:
            return "averages and hit counts then start from zero"
        return (
            f"it first reads the telemetry of the last {self.minutes} minutes without publishing, "
            "which fills averages and hit counts"
        )


NO_WARMING = Warming()


def _reached(end: Mapping[str, Any]) -> Callable[[int, int], bool]:
    """Returns a function (partition, offset) → True if the partition was read up to the offset.
    `end`: end offset of a micro-batch.
    """
    if "segment" in end:  # of a file topic, whose segments follow each other
        place = int(end["segment"]), int(end["byte"])
        return lambda segment, byte: segment < place[0] or (segment, byte) <= place
    if all(isinstance(place, list) for place in end.values()):
        taken = {int(number): _after(*map(int, place[:3])) for number, place in end.items()}
    else:
        (offsets,) = end.values()
        taken = {int(number): int(offset) for number, offset in offsets.items()}
    return lambda number, offset: taken.get(number, 0) >= offset


def _after(ledger: int, entry: int, batch: int) -> int:
    return 0 if ledger < 0 else MessageId(ledger, entry, batch).offset + 1


@dataclass(frozen=True, slots=True)
class Guard:
    """Content of the guard file. `state`: versions of the parts of the state; `settings`: dotted
    path → value; `warm`: what the checkpoint reads, or has read, without publishing.

    `digest` detects edited files.
    """

    product: str
    state: Mapping[str, int]
    settings: Mapping[str, Any]
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

    def at_least(self, epoch: int) -> "Guard":
        """Returns the guard with this epoch, unless its own is higher."""
        return replace(self, settings={**self.settings, _EPOCH: max(epoch, self.epoch)})

    def after(self, written: "Guard") -> "Guard":
        """Returns the guard of a start that continues a checkpoint: its epoch or a higher one, and
        its number of partitions if that is `auto`, and what it has read without publishing.
        """
        partitions = self.settings[PARTITIONS]
        if partitions == "auto":
            partitions = written.settings.get(PARTITIONS)
        continued = replace(
            self,
            settings={**self.settings, PARTITIONS: partitions},
            warm=written.warm,
        )
        return continued.at_least(written.epoch)


def guard_of(job: JobSettings, engine: EngineSettings) -> Guard:
    """Returns the guard of a new checkpoint."""
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
    settings |= _CALCULATES
    return Guard(
        engine.version,
        STATE_FORMAT,
        json.loads(json.dumps(settings)),
    )


def written_guard(folder: Path) -> Guard | None:
    """Returns the guard of a checkpoint; None for a new one. Raises StateVersionError."""
    return read_guard(folder) if (folder / GUARD).exists() else None


def read_guard(folder: Path) -> Guard:
    """Reads the guard file. Raises StateVersionError if the folder is not a checkpoint of this
    program or the file is damaged.
    """
    path = folder / GUARD
    try:
        tree = json.loads(path.read_bytes())
        version, digest = tree["format"], tree["digest"]
        warm = msgspec.convert(tree.get("warm_start"), WarmStart | None, str_keys=True)
        guard = Guard(str(tree["product"]), dict(tree["state"]), dict(tree["settings"]), warm)
    except FileNotFoundError as error:
        raise StateVersionError(
            f"{folder} is not a checkpoint of this program: it has no {GUARD}; {NEW_CHECKPOINT}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateVersionError(
            f"{path} cannot be read ({error}): restore it from a backup, or {NEW_CHECKPOINT}"
        ) from error
    if version != _FORMAT:
        raise StateVersionError(
            f"{path} is of format {version}, this version reads format {_FORMAT}: use the "
            f"version that wrote it, or {NEW_CHECKPOINT}"
        )
    if digest != guard.digest:
        raise StateVersionError(
            f"{path} was changed (its digest differs): restore it from a backup, or "
            f"{NEW_CHECKPOINT}"
        )
    # Guards without the first entries are older than these; those with the last one are, too.
    entries = {PULSAR_VERSION: RELEASES[0], **_CALCULATES, **guard.settings}
    if entries.get(_FILTERS) is True:
        del entries[_FILTERS]
    return replace(guard, settings=entries)


def write_guard(path: Path, guard: Guard) -> None:
    """Writes atomically: a killed job leaves no partial guard."""
    tree: dict[str, Any] = {
        "format": _FORMAT,
        "product": guard.product,
        "state": guard.state,
        "digest": guard.digest,
        "settings": guard.settings,
    }
    if guard.warm is not None:
        tree["warm_start"] = msgspec.to_builtins(guard.warm, str_keys=True)
    write_durably(path, json.dumps(tree, indent=2) + "\n", DRAFT)


def _dotted(section: str, values: Any) -> dict[str, Any]:
    tree = asdict(values) if is_dataclass(values) and not isinstance(values, type) else {}
    return {f"{section}.{key}": value for key, value in tree.items()}


def differing_settings(written: Guard, now: Guard) -> list[str]:
    """Returns the dotted paths that differ; for a changed strategy only its name, not all its
    settings.
    """
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

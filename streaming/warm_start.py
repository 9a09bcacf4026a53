"""Decides what a new checkpoint reads without publishing: the telemetry on which another job has
decided already, from as far back as its memory needs (decision 0255). Imports no Spark.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from math import ceil
from pathlib import Path

import msgspec

from sinks.processes import wall_clock_ms
from sinks.topics.access import ends, records_of
from sinks.topics.addresses import Connections, TopicUri
from sinks.topics.epochs import values_of
from sinks.topics.files.topic import FileTopicReader
from sinks.wire.codec import cluster_of
from strategies.cluster.intent_contract import LASTING
from strategies.fold.engine import EngineSettings
from strategies.fold.time_jumps import forget_ms
from strategies.fold.warm_start import warm_window_ms
from streaming.checkpoint.guard_file import (
    GUARD,
    NO_WARMING,
    Guard,
    Warming,
    WarmStart,
    write_guard,
)
from streaming.settings import JobSettings
from streaming.sources.file_places import offset_since

_MINUTE_MS = 60_000
#: Number of telemetry records in which a cluster is looked for that a job has decided on.
_MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20
_START = "earliest"


class _LastingIntent(msgspec.Struct):
    state: str
    asked_ms: int


class _DecidedRound(msgspec.Struct):
    """What a warm start needs of a round."""

    cluster: str
    epoch: int
    round: int
    ts: int
    intents: list[_LastingIntent] = []

    @property
    def lasts_since_ms(self) -> int | None:
        """Since when an intent lasts; None: none does."""
        asked = [intent.asked_ms for intent in self.intents if intent.state in LASTING]
        return min(asked, default=None)


@dataclass(frozen=True, slots=True)
class Used:
    """What rounds say of the job before. `newest_ms`: time of the newest round of all; `rounds`:
    cluster → its newest round, and since when an intent of it lasts (None: none does).
    """

    newest_ms: int
    rounds: dict[str, tuple[int, int | None]]

    def since(
        self, now_ms: int, window_ms: int, slack_ms: int, gone_ms: int
    ) -> tuple[int, str | None]:
        """Where reading begins: a window before the newest round, or before the oldest intent that
        lasts in the newest round of a cluster; and the name of that cluster. `gone_ms`: without a
        round for longer, a cluster has gone (0: never).
        """
        newest_ms = min(now_ms, self.newest_ms)
        asked = [
            (asked_ms - slack_ms, cluster)
            for cluster, (ts, asked_ms) in self.rounds.items()
            if asked_ms is not None and (not gone_ms or newest_ms - ts <= gone_ms)
        ]
        oldest_ms, cluster = min(asked, default=(newest_ms, ""))
        begin_ms = newest_ms - window_ms
        return (max(0, oldest_ms), cluster) if oldest_ms < begin_ms else (max(0, begin_ms), None)


def warming(
    job: JobSettings,
    engine: EngineSettings,
    log: Callable[[str], None] = lambda _: None,
    clock_ms: Callable[[], int] = wall_clock_ms,
    on_record: Callable[[], None] = lambda: None,
) -> Warming:
    """How a new checkpoint begins under these settings. A start position that they name (not the
    default) wins. `clock_ms`: ms since the epoch; `on_record`: see `used_before`.
    """
    minutes = window_minutes(job, engine)
    explicit = _named_start(job.connections)
    if not minutes or explicit:
        return replace(NO_WARMING, decide=lambda: _not_warm(explicit, log) if minutes else None)

    def decide() -> WarmStart | None:
        found = used_before(job.connections.topics.rounds, job.connections, on_record)
        return None if found is None else _decided(job, engine, found, log, clock_ms())

    return Warming(minutes, decide)


def window_minutes(job: JobSettings, engine: EngineSettings) -> int:
    """`job.warm_start_minutes`, or what the settings of the engine need."""
    if job.warm_start_minutes == "auto":
        return ceil(warm_window_ms(engine) / _MINUTE_MS)
    return job.warm_start_minutes


def with_start(used: Connections, warm: WarmStart | None) -> Connections:
    """The connections with which telemetry is read from the begin of a warm start."""
    if warm is None:
        return used
    start = str(warm.since_ms)
    return replace(
        used, kafka=replace(used.kafka, start=start), pulsar=replace(used.pulsar, start=start)
    )


def in_words(ms: int) -> str:
    """A time (ms since the epoch) for people."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def warmed_up(folder: Path, guard: Guard) -> None:
    """Records in a checkpoint the end of its warm start, after which positions decide nothing any
    more. Raises OSError.
    """
    if guard.warm is not None:
        write_guard(folder / GUARD, replace(guard, warm=replace(guard.warm, done=True)))


def used_before(
    topic: TopicUri, used: Connections, on_record: Callable[[], None] = lambda: None
) -> Used | None:
    """What the rounds topic says; None without rounds. `on_record`: called at each record. Raises
    SettingsError, SinkError.
    """
    newest: dict[str, _DecidedRound] = {}
    for value in values_of(topic, used.access, on_record):
        try:
            one = msgspec.json.decode(value, type=_DecidedRound)
        except (ValueError, RecursionError):
            continue
        before = newest.get(one.cluster, one)
        # Not by time, which may jump back.
        if (one.epoch, one.round) >= (before.epoch, before.round):
            newest[one.cluster] = one
    rounds = {cluster: (one.ts, one.lasts_since_ms) for cluster, one in newest.items()}
    return Used(max(ts for ts, _ in rounds.values()), rounds) if rounds else None


def _decided(
    job: JobSettings,
    engine: EngineSettings,
    found: Used,
    log: Callable[[str], None],
    now_ms: int,
) -> WarmStart | None:
    used, minutes = job.connections, window_minutes(job, engine)
    since_ms, lasting = found.since(
        now_ms, minutes * _MINUTE_MS, engine.round.max_clock_jump_ms, forget_ms(engine.round)
    )
    until = ends(used.topics.telemetry, used.access)
    if not _is_known(used, since_ms, found.rounds):
        return None
    usual = f"{minutes} minutes before the newest round of the job before"
    why = (
        f"{usual}, {in_words(found.newest_ms)}"
        if lasting is None
        else f"a drain or roll of that time lasts in {lasting}, and the commands of all clusters "
        f"wait until it is read; without it, {usual}"
    )
    log(
        f"warm start: reads telemetry from {in_words(since_ms)} up to its present end without "
        f"publishing ({why}); decisions on later records are published. "
        "A new checkpoint with job.warm_start_minutes = 0 decides on all of it again"
    )
    return WarmStart(since_ms, until)


def _not_warm(setting: str, log: Callable[[str], None]) -> WarmStart | None:
    log(f"no warm start: {setting} names where this new checkpoint begins")
    return None


def _named_start(used: Connections) -> str:
    """The setting that names a start position; empty if none does."""
    scheme = used.topics.telemetry.scheme
    if scheme == "kafka" and used.kafka.start != _START:
        return "kafka.start"
    return "pulsar.start" if scheme == "pulsar" and used.pulsar.start != _START else ""


def _is_known(used: Connections, since_ms: int, clusters: Collection[str]) -> bool:
    """Whether the telemetry of a warm start is of a cluster that a job has decided on: several jobs
    may publish their rounds on one topic.
    """
    topic = used.topics.telemetry
    if topic.scheme == "file":
        begin = offset_since(topic.folder, since_ms)
        some, _ = FileTopicReader(topic.folder).read(begin, _MOST_RECORDS, _MOST_BYTES)
        return any(cluster_of(record.value) in clusters for record in some)
    records = islice(records_of(topic, used.access, since_ms, used.source), _MOST_RECORDS)
    return any(cluster_of(record.value) in clusters for record in records if record.value)

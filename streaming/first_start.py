"""Decides at the first start of a checkpoint. Imports no Spark.

Which telemetry the job reads without publishing: that on which another job has decided already, as
far back as the memory of the engine reaches (decision 0255). And what settings of value `auto`
stand for, which the checkpoint keeps: the Pulsar release whose rules the job follows (by the
versions of brokers in the telemetry), and the number of state partitions.
"""

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from math import ceil
from pathlib import Path

import msgspec

from sinks.graceful_stop import wall_clock_ms
from sinks.topics.epochs import values_of
from sinks.topics.files.topic import FileTopicReader
from sinks.topics.open_topics import ends, records_of
from sinks.topics.topic_settings import Connections, TopicUri
from sinks.wire.raw_broker_reports import brokers_in
from sinks.wire.record_decoding import cluster_of
from strategies.cluster.intent_records_and_states import LASTING
from strategies.fold.engine import EngineSettings
from strategies.fold.time_jumps_and_forgetting import forget_after_ms
from strategies.fold.warm_start_length import warm_window_ms
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, PulsarRelease, release_of
from streaming.checkpoint.remembered_and_changed_settings import (
    GUARD,
    NO_WARMING,
    PARTITIONS,
    Guard,
    Warming,
    WarmStart,
    write_guard,
)
from streaming.settings import JobSettings
from streaming.sources.file_places import offset_since

_MINUTE_MS = 60_000
_START = "earliest"
#: Age (ms) of the oldest telemetry in which versions are looked for: a collector publishes the
#: brokers' versions at least every 15 minutes, modular brokers report theirs every minute.
_VERSIONS_MS = 20 * 60_000
#: Pause between two reads of a telemetry topic on which no broker has reported.
_LOOK_S = 2.0
#: Maximum of telemetry in which a cluster of the job before, or the versions of brokers, are looked
#: for.
_MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20
#: Age (ms) of the oldest telemetry in which clusters are looked for: every broker reports at least
#: every few minutes.
_CLUSTERS_MS = 10 * 60_000
#: More partitions than this have no benefit on one machine.
_MOST_PARTITIONS = 1_000


class _LastingIntent(msgspec.Struct):
    state: str
    asked_ms: int


class _DecidedRound(msgspec.Struct):
    """The fields of a round that a warm start needs."""

    cluster: str
    epoch: int
    round: int
    ts: int
    intents: list[_LastingIntent] = []

    @property
    def lasts_since_ms(self) -> int | None:
        """Time of the oldest intent that lasts; None without one."""
        asked = [intent.asked_ms for intent in self.intents if intent.state in LASTING]
        return min(asked, default=None)


@dataclass(frozen=True, slots=True)
class Used:
    """Facts about the job before, from its rounds. Times in ms since the epoch."""

    #: Time of the newest round.
    newest_ms: int
    #: Cluster → time of its newest round, and of the oldest intent that lasts in it, if any.
    rounds: dict[str, tuple[int, int | None]]

    def since(
        self, now_ms: int, window_ms: int, slack_ms: int, gone_ms: int
    ) -> tuple[int, str | None]:
        """Returns the time at which reading begins: `window_ms` before the newest round, or, if it
        is older, `slack_ms` before the oldest intent that lasts in the newest round of a cluster.
        In the second case also returns the cluster, else None. `gone_ms`: a cluster without a round
        for longer has gone (0: never).
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
    """Returns the rules by which a new checkpoint begins under these settings. If they name a start
    position (not the default), there is no warm start. `clock_ms`: ms since the epoch; `on_record`:
    see `read_job_before`.
    """
    minutes = window_minutes(job, engine)
    explicit = _named_start(job.connections)
    if not minutes or explicit:
        return replace(NO_WARMING, decide=lambda: _not_warm(explicit, log) if minutes else None)

    def decide() -> WarmStart | None:
        rounds_before = read_job_before(job.connections.topics.rounds, job.connections, on_record)
        return (
            None if rounds_before is None else _decided(job, engine, rounds_before, log, clock_ms())
        )

    return Warming(minutes, decide)


def window_minutes(job: JobSettings, engine: EngineSettings) -> int:
    """Returns `job.warm_start_minutes`; for `auto`, the reach of the engine's memory in minutes."""
    if job.warm_start_minutes == "auto":
        return ceil(warm_window_ms(engine) / _MINUTE_MS)
    return job.warm_start_minutes


def with_start(used: Connections, warm: WarmStart | None) -> Connections:
    """Returns connections that read telemetry from the begin of a warm start."""
    if warm is None:
        return used
    start = str(warm.since_ms)
    return replace(
        used, kafka=replace(used.kafka, start=start), pulsar=replace(used.pulsar, start=start)
    )


def in_words(ms: int) -> str:
    """Returns a time (ms since the epoch) as text."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def end_warm_start(folder: Path, guard: Guard) -> None:
    """Records in the guard file of a checkpoint that its warm start has ended, after which all rows
    are published. Raises OSError.
    """
    if guard.warm is not None:
        write_guard(folder / GUARD, replace(guard, warm=replace(guard.warm, done=True)))


def read_job_before(
    topic: TopicUri, used: Connections, on_record: Callable[[], None] = lambda: None
) -> Used | None:
    """Reads the facts about the job before from the rounds topic; None without rounds. `on_record`:
    called at each record. Raises SettingsError, SinkError.
    """
    newest: dict[str, _DecidedRound] = {}
    for value in values_of(topic, used.access, on_record):
        try:
            round_ = msgspec.json.decode(value, type=_DecidedRound)
        except (ValueError, RecursionError):
            continue
        before = newest.get(round_.cluster, round_)
        # Not by time, which may jump back.
        if (round_.epoch, round_.round) >= (before.epoch, before.round):
            newest[round_.cluster] = round_
    rounds = {cluster: (round_.ts, round_.lasts_since_ms) for cluster, round_ in newest.items()}
    return Used(max(ts for ts, _ in rounds.values()), rounds) if rounds else None


def _decided(
    job: JobSettings,
    engine: EngineSettings,
    rounds_before: Used,
    log: Callable[[str], None],
    now_ms: int,
) -> WarmStart | None:
    used, minutes = job.connections, window_minutes(job, engine)
    since_ms, lasting = rounds_before.since(
        now_ms, minutes * _MINUTE_MS, engine.round.max_clock_jump_ms, forget_after_ms(engine.round)
    )
    until = ends(used.topics.telemetry, used.access)
    if not _is_known(used, since_ms, rounds_before.rounds):
        return None
    usual = f"{minutes} minutes before the newest round of the job before"
    why = (
        f"{usual}, {in_words(rounds_before.newest_ms)}"
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
    """Returns the setting that names a start position; empty if none does."""
    scheme = used.topics.telemetry.scheme
    if scheme == "kafka" and used.kafka.start != _START:
        return "kafka.start"
    return "pulsar.start" if scheme == "pulsar" and used.pulsar.start != _START else ""


def _is_known(used: Connections, since_ms: int, clusters: Collection[str]) -> bool:
    """True if the telemetry of a warm start has one of these clusters. Several jobs may publish
    their rounds on one topic, and the rounds may be those of another telemetry topic.
    """
    topic = used.topics.telemetry
    if topic.scheme == "file":
        begin = offset_since(topic.folder, since_ms)
        oldest, _ = FileTopicReader(topic.folder).read(begin, _MOST_RECORDS, _MOST_BYTES)
        return any(cluster_of(record.value) in clusters for record in oldest)
    records = islice(records_of(topic, used.access, since_ms, used.source), _MOST_RECORDS)
    return any(cluster_of(record.value) in clusters for record in records if record.value)


def release_in(written: Guard) -> PulsarRelease:
    """Returns the release of a checkpoint."""
    release: PulsarRelease = written.settings[PULSAR_VERSION]
    return release


def resolve_release(
    job: JobSettings,
    written: Guard | None,
    log: Callable[[str], None] = lambda _: None,
    *,
    ended: Callable[[float], bool] | None,
) -> PulsarRelease | None:
    """Returns the release that `auto` stands for. A new checkpoint waits until a broker has
    reported, logs the release, and keeps it; None if the job ends before.

    `written`: the guard of the checkpoint, None for a new one. `ended`: waits for a number of
    seconds and returns True if the job ends; None for a job that processes the present records
    only. Raises SinkError.
    """
    if written is not None:
        return release_in(written)
    seen = versions_seen(job.connections)
    if seen is None and ended is not None:
        log(
            f"{PULSAR_VERSION}: auto waits for the first report of a broker, which names its "
            f"version; check that `rebalancer collect` runs, or set {PULSAR_VERSION}"
        )
        while seen is None:
            if ended(_LOOK_S):
                return None
            seen = versions_seen(job.connections)
    release = release_of(seen or {})
    log(
        f"{PULSAR_VERSION}: {release.release} (auto, by the telemetry: {release.why}); fixed in "
        "the checkpoint from now on"
    )
    for remark in release.remarks:
        log(f"{PULSAR_VERSION}: {remark}")
    return release.release


def versions_seen(used: Connections, now_ms: int | None = None) -> dict[str, str] | None:
    """Returns broker → the version in its newest record, from the records of the last 20 minutes;
    if these name no version, from the oldest ones, with which a new checkpoint begins. None if no
    broker has reported. Reads at most 20,000 records or 64 MiB at each end. Raises SinkError.

    `now_ms`: the end of these minutes (ms since the epoch), by default the present.
    """
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    newest = _read(used, now_ms - _VERSIONS_MS)
    if newest:
        return newest
    oldest = _read(used, None)
    return newest if oldest is None else oldest


def _read(used: Connections, since_ms: int | None) -> dict[str, str] | None:
    versions: dict[str, str] | None = None
    size = 0
    collected = used.source.format == "envelope"
    records = records_of(used.topics.telemetry, used.access, since_ms, used.source)
    for record in islice(records, _MOST_RECORDS):
        size += len(record.value)
        seen = brokers_in(record.value, collected=collected)
        if seen is not None:
            versions = {**(versions or {}), **seen}
        if size >= _MOST_BYTES:
            break
    return versions


def with_partitions(
    job: JobSettings,
    written: Guard | None,
    log: Callable[[str], None] = lambda _: None,
    *,
    clusters: Callable[[Connections], int] | None = None,
) -> JobSettings:
    """Resolves `job.shuffle_partitions = "auto"`: to the number of the checkpoint; for a new one,
    to the number by cores and clusters.

    `written`: the guard of the checkpoint, None for a new one. `clusters`: replaces
    `clusters_seen`. Raises SinkError.
    """
    if job.shuffle_partitions != "auto":
        return job
    if written is not None:
        return replace(job, shuffle_partitions=int(written.settings[PARTITIONS]))
    number, cores = (clusters or clusters_seen)(job.connections), cores_of(job)
    partitions = first_partitions(cores, number)
    log(
        f"job.shuffle_partitions: {partitions} (auto: {cores} cores, {number} clusters in the "
        "newest telemetry); fixed in the checkpoint from now on"
    )
    return replace(job, shuffle_partitions=partitions)


def first_partitions(cores: int, clusters: int) -> int:
    """Returns the number of state partitions: one per core, at most one per cluster, at least 1."""
    return max(1, min(cores, clusters, _MOST_PARTITIONS))


def cores_of(job: JobSettings) -> int:
    """Returns the number of tasks that can run at the same time. That of a cluster of workers is
    known only after Spark's start: `job.read_tasks` stands for it.
    """
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", job.master)
    if local is None:
        return job.read_tasks
    threads = local[1] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def clusters_seen(used: Connections) -> int:
    """Returns the number of clusters that records of the last ten minutes name; reads at most
    20,000 of these. Raises SinkError.
    """
    since_ms = wall_clock_ms() - _CLUSTERS_MS
    records = records_of(used.topics.telemetry, used.access, since_ms, used.source)
    newest = islice(records, _MOST_RECORDS)
    return len({cluster_of(record.value) for record in newest if record.value} - {""})

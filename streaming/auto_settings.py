"""Resolves settings of value `auto` at the first start of a checkpoint, which keeps their values:
the Pulsar release whose rules the job follows (by the versions of brokers in the telemetry), and
the number of state partitions. Imports no Spark.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from sinks.graceful_stop import wall_clock_ms
from sinks.topics.open_topics import records_of
from sinks.topics.topic_settings import Connections
from sinks.wire.raw_broker_reports import brokers_in
from sinks.wire.record_decoding import cluster_of
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, PulsarRelease, release_of
from streaming.checkpoint.remembered_and_changed_settings import PARTITIONS, Guard
from streaming.settings import JobSettings

#: Age (ms) of the oldest telemetry in which versions are looked for: a collector publishes the
#: brokers' versions at least every 15 minutes, modular brokers report theirs every minute.
_VERSIONS_MS = 20 * 60_000
#: Pause between two reads of a telemetry topic on which no broker has reported.
_LOOK_S = 2.0
_MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20
#: Age (ms) of the oldest telemetry in which clusters are looked for: every broker reports at least
#: every few minutes.
_CLUSTERS_MS = 10 * 60_000
#: More partitions than this have no benefit on one machine.
_MOST_PARTITIONS = 1_000


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

"""Resolves settings of value `auto` at the first start of a checkpoint, which keeps them: the
Pulsar release whose rules the job follows, by the brokers in the telemetry, and the number of state
partitions. Imports no Spark.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from sinks.processes import wall_clock_ms
from sinks.topics.access import records_of
from sinks.topics.addresses import Connections
from sinks.wire.broker_reports import brokers_in
from sinks.wire.codec import cluster_of
from strategies.java.pulsar_releases import PULSAR_VERSION, PulsarRelease, release_of
from streaming.checkpoint.guard_file import PARTITIONS, Guard
from streaming.settings import JobSettings

#: How much of the newest telemetry is read: a collector publishes the brokers' versions at least
#: every 15 minutes, modular brokers report theirs every minute.
_VERSIONS_MS = 20 * 60_000
#: Between two looks at a telemetry topic on which no broker has reported.
_LOOK_S = 2.0
_MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20
#: How much of the newest telemetry is read to find its clusters: every broker reports at least
#: every few minutes.
_CLUSTERS_MS = 10 * 60_000
#: More partitions than this have no benefit on one machine.
_MOST_PARTITIONS = 1_000


def release_in(written: Guard) -> PulsarRelease:
    """The release of a checkpoint."""
    release: PulsarRelease = written.settings[PULSAR_VERSION]
    return release


def resolved_release(
    job: JobSettings,
    written: Guard | None,
    log: Callable[[str], None] = lambda _: None,
    *,
    ended: Callable[[float], bool] | None,
) -> PulsarRelease | None:
    """What `auto` means for this job; logs it at its first start, which waits until a broker has
    reported: the checkpoint keeps the release. None if the job ends before.

    `written`: the guard of the checkpoint, None for a new one; `ended`: waits for these seconds,
    and says whether the job ends; None for a job that ends with the present records. Raises
    SinkError.
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
    found = release_of(seen or {})
    log(
        f"{PULSAR_VERSION}: {found.release} (auto, by the telemetry: {found.why}); fixed in the "
        "checkpoint from now on"
    )
    for remark in found.remarks:
        log(f"{PULSAR_VERSION}: {remark}")
    return found.release


def versions_seen(used: Connections, now_ms: int | None = None) -> dict[str, str] | None:
    """Broker → the version that its newest record names, by records of the last 20 minutes; if
    they name none, by the oldest ones, with which a new checkpoint begins. None if no broker has
    reported. Reads at most 20,000 records or 64 MiB of each. Raises SinkError.

    `now_ms`: the end of these minutes (ms since the epoch), by default the present.
    """
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    newest = _read(used, now_ms - _VERSIONS_MS)
    if newest:
        return newest
    oldest = _read(used, None)
    return newest if oldest is None else oldest


def _read(used: Connections, since_ms: int | None) -> dict[str, str] | None:
    found: dict[str, str] | None = None
    size = 0
    collected = used.source.format == "envelope"
    records = records_of(used.topics.telemetry, used.access, since_ms, used.source)
    for record in islice(records, _MOST_RECORDS):
        size += len(record.value)
        seen = brokers_in(record.value, collected=collected)
        if seen is not None:
            found = {**(found or {}), **seen}
        if size >= _MOST_BYTES:
            break
    return found


def with_partitions(
    job: JobSettings,
    written: Guard | None,
    log: Callable[[str], None] = lambda _: None,
    *,
    clusters: Callable[[Connections], int] | None = None,
) -> JobSettings:
    """Resolves `job.shuffle_partitions = "auto"`: the number of the checkpoint, for a new one that
    of its first start.

    `written`: the guard of the checkpoint, None for a new one; `clusters`: replaces the look at the
    telemetry topic. Raises SinkError.
    """
    if job.shuffle_partitions != "auto":
        return job
    if written is not None:
        return replace(job, shuffle_partitions=int(written.settings[PARTITIONS]))
    found, cores = (clusters or clusters_seen)(job.connections), cores_of(job)
    partitions = first_partitions(cores, found)
    log(
        f"job.shuffle_partitions: {partitions} (auto: {cores} cores, {found} clusters in the newest"
        " telemetry); fixed in the checkpoint from now on"
    )
    return replace(job, shuffle_partitions=partitions)


def first_partitions(cores: int, clusters: int) -> int:
    """As many as can work side by side, and no more than there are clusters; at least one."""
    return max(1, min(cores, clusters, _MOST_PARTITIONS))


def cores_of(job: JobSettings) -> int:
    """Tasks that can run at the same time. Those of a cluster of workers are known only later:
    `job.read_tasks` stands for them.
    """
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", job.master)
    if local is None:
        return job.read_tasks
    threads = local[1] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def clusters_seen(used: Connections) -> int:
    """Number of clusters that records of the last ten minutes name, of at most 20,000 records.
    Raises SinkError.
    """
    since_ms = wall_clock_ms() - _CLUSTERS_MS
    records = records_of(used.topics.telemetry, used.access, since_ms, used.source)
    newest = islice(records, _MOST_RECORDS)
    return len({cluster_of(record.value) for record in newest if record.value} - {""})

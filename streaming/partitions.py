"""The number of state partitions at the first start of a checkpoint. Imports no Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from sinks.processes import wall_clock_ms
from sinks.topics.access import records_of
from sinks.topics.addresses import Connections
from sinks.wire.codec import cluster_of
from streaming.checkpoint.guard_file import PARTITIONS, Guard
from streaming.settings import JobSettings

#: How much of the newest telemetry is read to find its clusters: every broker reports at least
#: every few minutes.
_LOOK_BACK_MS = 10 * 60_000
_MOST_RECORDS = 20_000
#: More partitions than this have no benefit on one machine.
_MOST = 1_000


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
    return max(1, min(cores, clusters, _MOST))


def cores_of(job: JobSettings) -> int:
    """Tasks that can run at the same time. Those of a cluster of workers are known only later:
    `job.read_tasks` stands for them.
    """
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", job.master)
    if local is None:
        return job.read_tasks
    threads = local[1] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def clusters_seen(used: Connections, now_ms: int | None = None) -> int:
    """Number of clusters that records of the last ten minutes name, of at most 20,000 records.
    Raises SinkError.

    `now_ms`: the end of these minutes (ms since the epoch), by default the present.
    """
    since_ms = (wall_clock_ms() if now_ms is None else now_ms) - _LOOK_BACK_MS
    records = records_of(used.topics.telemetry, used.access, since_ms, used.source)
    newest = islice(records, _MOST_RECORDS)
    return len({cluster_of(record.value) for record in newest if record.value} - {""})

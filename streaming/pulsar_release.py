"""The Pulsar release whose rules a job follows with `pulsar.version = "auto"`: that of its
checkpoint, for a new one that of the brokers in the telemetry. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from sinks.processes import wall_clock_ms
from sinks.topics.access import records_of
from sinks.topics.addresses import Connections
from sinks.wire.broker_reports import brokers_in
from strategies.java.broker_versions import release_of
from strategies.java.release_defaults import PULSAR_VERSION, PulsarRelease
from streaming.checkpoint.guard_file import Guard
from streaming.settings import JobSettings

#: How much of the newest telemetry is read: a collector publishes the brokers' versions at least
#: every 15 minutes, modular brokers report theirs every minute.
_LOOK_BACK_MS = 20 * 60_000
#: Between two looks at a telemetry topic on which no broker has reported.
_LOOK_S = 2.0
MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20


def release_in(written: Guard) -> PulsarRelease:
    """The release of a checkpoint."""
    release: PulsarRelease = written.settings[PULSAR_VERSION]
    return release


def resolved_release(
    job: JobSettings,
    written: Guard | None,
    log: Callable[[str], None] = lambda _: None,
    *,
    versions: Callable[[Connections], Mapping[str, str] | None],
    ended: Callable[[float], bool],
) -> PulsarRelease | None:
    """What `auto` means for this job; logs it at its first start, which waits until a broker has
    reported: the checkpoint keeps the release. None if the job ends before.

    `written`: the guard of the checkpoint, None for a new one; `versions`: looks at the telemetry
    topic, as `versions_seen` does; `ended`: waits for these seconds, and says whether the job ends.
    Raises SinkError.
    """
    if written is not None:
        return release_in(written)
    seen = versions(job.connections)
    if seen is None:
        log(
            f"{PULSAR_VERSION}: auto waits for the first report of a broker, which names its "
            f"version; check that `rebalancer collect` runs, or set {PULSAR_VERSION}"
        )
    while seen is None:
        if ended(_LOOK_S):
            return None
        seen = versions(job.connections)
    found = release_of(seen)
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
    newest = _read(used, now_ms - _LOOK_BACK_MS)
    if newest:
        return newest
    oldest = _read(used, None)
    return newest if oldest is None else oldest


def _read(used: Connections, since_ms: int | None) -> dict[str, str] | None:
    found: dict[str, str] | None = None
    size = 0
    collected = used.source.format == "envelope"
    records = records_of(used.topics.telemetry, used.access, since_ms, used.source)
    for record in islice(records, MOST_RECORDS):
        size += len(record.value)
        seen = brokers_in(record.value, collected=collected)
        if seen is not None:
            found = {**(found or {}), **seen}
        if size >= _MOST_BYTES:
            break
    return found

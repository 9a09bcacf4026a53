"""The Pulsar release whose rules a job follows with `pulsar.version = "auto"`: that of its
checkpoint, for a new one that of the brokers in the telemetry. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from sinks.topics.access import open_reader
from sinks.topics.connections import Connections
from sinks.wall_clock import wall_clock_ms
from sinks.wire.broker_versions import versions_of
from strategies.java.broker_versions import release_of
from strategies.java.release_defaults import PULSAR_VERSION, PulsarRelease
from streaming.checkpoint.guard_file import GUARD, read_guard
from streaming.settings import JobSettings

#: How much of the newest telemetry is read: a collector publishes the brokers' versions at least
#: every 15 minutes, modular brokers report theirs every minute.
_LOOK_BACK_MS = 20 * 60_000
MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20


def written_release(folder: Path) -> PulsarRelease | None:
    """The release of a checkpoint; None for a new one. Raises StateVersionError."""
    if not (folder / GUARD).exists():
        return None
    release: PulsarRelease = read_guard(folder).settings[PULSAR_VERSION]
    return release


def resolved_release(
    job: JobSettings,
    folder: Path,
    log: Callable[[str], None] = lambda _: None,
    *,
    versions: Callable[[Connections], Mapping[str, str]] | None = None,
) -> PulsarRelease:
    """What `auto` means for this job; logs it at its first start. `versions`: replaces the look at
    the telemetry topic. Raises StateVersionError, SinkError.
    """
    written = written_release(folder)
    if written is not None:
        return written
    found = release_of((versions or versions_seen)(job.connections))
    log(
        f"{PULSAR_VERSION}: {found.release} (auto, by the telemetry: {found.why}); fixed in the "
        "checkpoint from now on"
    )
    for remark in found.remarks:
        log(f"{PULSAR_VERSION}: {remark}")
    return found.release


def versions_seen(used: Connections, now_ms: int | None = None) -> dict[str, str]:
    """Broker → the version that its newest record names, by records of the last 20 minutes; if
    they name none, by the oldest ones, with which a new checkpoint begins. Reads at most 20,000
    records or 64 MiB of each. Raises SinkError.

    `now_ms`: the end of these minutes (ms since the epoch), by default the present.
    """
    topic = used.topics.telemetry
    if topic.scheme == "file" and not topic.folder.is_dir():
        return {}
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    return _read(used, now_ms - _LOOK_BACK_MS) or _read(used, None)


def newest_versions(values: Iterable[bytes]) -> dict[str, str]:
    """Broker → the version that the last of these records names."""
    found: dict[str, str] = {}
    for value in values:
        found |= versions_of(value)
    return found


def _read(used: Connections, since_ms: int | None) -> dict[str, str]:
    found: dict[str, str] = {}
    records = size = 0
    reader = open_reader(used.topics.telemetry, used.access, source=used.source, since_ms=since_ms)
    with closing(reader):
        while records < MOST_RECORDS and size < _MOST_BYTES and (read := reader.read()):
            records += len(read)
            size += sum(len(record.value) for record in read)
            found |= newest_versions(record.value for record in read)
    return found

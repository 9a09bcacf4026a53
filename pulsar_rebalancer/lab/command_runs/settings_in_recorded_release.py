"""Settings for a recording: with the Pulsar release that it names."""

from collections.abc import Iterable
from pathlib import Path

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.recorded_release import recorded_release, release_in
from pulsar_rebalancer.settings.merge_sources import Settings
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, RELEASES


def in_recorded_release(settings: Settings, recording: Path | str | Iterable[bytes]) -> Settings:
    """The settings with the Pulsar release that a recording names, or telemetry records, if they
    leave it open. Reports on standard error what differs from the usual. Raises SinkError.
    """
    if not settings.release_is_open:
        return settings
    found = (
        recorded_release(recording) if isinstance(recording, Path | str) else release_in(recording)
    )
    if found.release != RELEASES[0]:
        console.progress(f"{PULSAR_VERSION}: {found.release} (auto, by the records: {found.why})")
    console.warn([f"{PULSAR_VERSION}: {remark}" for remark in found.remarks])
    return settings.in_release(found.release)

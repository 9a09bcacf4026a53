"""How often a collector looks at the brokers, how many at a time, and how long it waits for one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from strategies.errors import SettingsError
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Brokers measure once a minute; a pass more often than rounds close makes sure that each round has a fresh one."""

    state: Annotated[str, Setting("Folder for the brokers that each cluster listed last; the next start asks them too")] = (
        "/var/lib/pulsar-rebalancer/collector"
    )
    pass_interval_ms: Annotated[
        int, Setting("Time from the start of one pass over all brokers to the next", "ms", ge=100, le=3_600_000)
    ] = 20_000
    broker_deadline_ms: Annotated[int, Setting("How long one broker may take; then it is named as missing", "ms", ge=10, le=600_000)] = (
        3_000
    )
    max_concurrent: Annotated[int, Setting("Brokers that are asked at the same time", "", ge=1, le=1_000)] = 64
    most_passes_off: Annotated[
        int, Setting("A broker that keeps failing is left out of 1, 2, 4 … passes, but of no more than this in a row", "", ge=0, le=1_000)
    ] = 8
    keep_ms: Annotated[
        int,
        Setting(
            "How long the load that an extensible broker published last holds; then it is named as missing",
            "ms",
            ge=1_000,
            le=86_400_000,
        ),
    ] = 1_800_000
    policies_interval_ms: Annotated[
        int, Setting("Time between two looks at isolation policies, anti-affinity groups and failure domains", "ms", ge=100, le=86_400_000)
    ] = 300_000


def collector_folder(settings: CollectorSettings) -> Path:
    """Raises SettingsError."""
    if not settings.state.startswith("/") or "\0" in settings.state:
        raise SettingsError([f"collector.state: {settings.state!r} is no absolute path; name a folder of this machine"])
    return Path(settings.state)

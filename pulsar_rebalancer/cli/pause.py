"""The file that pauses an executor on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pulsar_rebalancer.settings.load import Settings
from sinks.executor.settings import pause_file


@dataclass(frozen=True, slots=True)
class Pause:
    """The file that pauses an executor on this machine; `exists`: None = this user may not look."""

    file: Path
    exists: bool | None


def pause_of(settings: Settings) -> Pause:
    """Looks for the pause file. Raises SettingsError for an invalid executor.state."""
    file = pause_file(settings.executor)
    try:
        return Pause(file, file.exists())
    except OSError:
        return Pause(file, None)

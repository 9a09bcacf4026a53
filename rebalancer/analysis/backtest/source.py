"""A recording of either kind as a columnar one; JSON Lines are converted into a temporary file first, as several runs will read it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sinks.recordings.columnar import ENDING
from sinks.recordings.recorder import converted
from sinks.wire.limits import WireLimits


@contextmanager
def columnar(recording: Path, limits: WireLimits, say: Callable[[str], None]) -> Iterator[Path]:
    """The path to read. Raises SinkError for a recording that cannot be read, SettingsError where pyarrow is missing."""
    if recording.suffix == ENDING:
        yield recording
        return
    with tempfile.TemporaryDirectory(prefix="rebalancer-backtest-") as folder:
        target = Path(folder) / f"recording{ENDING}"
        done = converted(str(recording), target, limits)
        say(f"{done.records} records read; `rebalancer convert` keeps the columnar form, which is read many times faster")
        yield target

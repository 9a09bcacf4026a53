"""A recording as a columnar one. JSON Lines are first converted into a temporary file, because
several runs read it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sinks.recordings.columnar import ENDING
from sinks.recordings.recorder import converted
from sinks.wire.size_limits import WireLimits


@contextmanager
def columnar(recording: Path, limits: WireLimits, say: Callable[[str], None]) -> Iterator[Path]:
    """Path of the columnar recording. Raises SinkError for a recording that cannot be read,
    SettingsError if pyarrow is missing.
    """
    if recording.suffix == ENDING:
        yield recording
        return
    with tempfile.TemporaryDirectory(prefix="rebalancer-backtest-") as folder:
        target = Path(folder) / f"recording{ENDING}"
        done = converted(str(recording), target, limits)
        say(
            f"{done.records} records read; `rebalancer convert` writes a columnar file, which "
            "is read many times faster"
        )
        yield target

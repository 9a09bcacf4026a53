"""The clock of this machine."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Now, in ms since the epoch."""
    return time.time_ns() // 1_000_000

"""Durations in findings."""

from __future__ import annotations

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def age(ms: int) -> str:
    """`12 s`, `3 min`, `2 h`, `5 d`; a time in the future counts as 0 s."""
    for unit, size in _UNITS:
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{max(0, ms) // 1000} s"

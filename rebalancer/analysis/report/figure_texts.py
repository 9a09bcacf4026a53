"""Formats figures for display."""

from __future__ import annotations

from math import isnan

#: Legend of the columns about what moves brought.
FORESIGHT = (
    "returns: moves that took a bundle back within an hour; useless: moves that brought less than "
    "a tenth of the expected fall of the spread; error: between expected and measured usage after "
    "moves, in points"
)


def number(count: int, thing: str, things: str = "") -> str:
    """`1 bundle`, `1,204 bundles`, `no bundles`."""
    if count == 1:
        return f"1 {thing}"
    plural = things or f"{thing}s"
    return f"{count:,} {plural}" if count else f"no {plural}"


def points(value: float) -> str:
    """`8.4 points`; a dash for an unknown value."""
    return "–" if isnan(value) else f"{value:.1f} points"


def figure(value: float, unit: str = "") -> str:
    """One decimal and a unit; a dash for an unknown value."""
    return "–" if isnan(value) else f"{value:,.1f}{unit}"


def count(value: float) -> str:
    """A whole number; a dash for an unknown one."""
    return "–" if isnan(value) else f"{value:,.0f}"


def share(value: float) -> str:
    """A fraction as whole percent; 0 % and 100 % only if exact."""
    percent = 100.0 * value
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def data_rate(value: float) -> str:
    """Bytes/s in the largest fitting unit."""
    if isnan(value):
        return "–"
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:,.0f} B/s"


def duration(milliseconds: int) -> str:
    """`45 min`, `3.5 h`, `30 days`."""
    minutes = milliseconds / 60_000
    if minutes < 120:
        return f"{max(1, round(minutes))} min"
    hours = minutes / 60
    return (
        f"{hours:.1f} h".replace(".0", "")
        if hours < 48
        else f"{hours / 24:.1f} days".replace(".0", "")
    )

"""Formats the figures of runs for display."""

from __future__ import annotations

from math import isnan

#: Legend of the columns about what moves brought.
FORESIGHT = (
    "returns: moves that took a bundle back within an hour; useless: moves that brought less than "
    "a tenth of the expected fall of the spread; error: between expected and measured usage after "
    "moves, in points"
)


def points(value: float) -> str:
    """`8.4 points`; a dash for an unknown value."""
    return "–" if isnan(value) else f"{value:.1f} points"


def count(value: float) -> str:
    """A whole number; a dash for an unknown one."""
    return "–" if isnan(value) else f"{value:,.0f}"


def share(value: float) -> str:
    """A fraction as whole percent; 0 % and 100 % only if exact."""
    percent = 100.0 * value
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


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

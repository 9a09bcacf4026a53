"""Formats the figures of rounds for display."""

from __future__ import annotations

from math import isnan

from strategies.figures.describe import counted


def number(count: int, thing: str) -> str:
    """`1 bundle`, `1,204 bundles`, `no bundles`."""
    return counted(count, thing) if count else f"no {thing}s"


def figure(value: float, unit: str = "") -> str:
    """One decimal and a unit; a dash for an unknown value."""
    return "–" if isnan(value) else f"{value:,.1f}{unit}"


def data_rate(value: float) -> str:
    """Bytes/s in the largest fitting unit."""
    if isnan(value):
        return "–"
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:,.0f} B/s"

"""Runs of one scenario with one strategy, whose seeds are summed up together."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from rebalancer.analysis.simulate.runs import Made


def grouped(made: Sequence[Made]) -> dict[tuple[str, str], list[Made]]:
    """By scenario and strategy, in the order of the requests."""
    groups: dict[tuple[str, str], list[Made]] = {}
    for one in made:
        groups.setdefault((one.scenario, one.label), []).append(one)
    return groups


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle; ∞ counts as larger than all; NaN are left out."""
    known = sorted(value for value in values if not isnan(value))
    if not known:
        return float("nan")
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    return low if low == high else (low + high) / 2


def best_rows(values: Sequence[float]) -> list[int]:
    """Rows with the lowest figure; none if all are alike or unknown."""
    known = [value for value in values if not isnan(value)]
    if len(known) < 2 or min(known) == max(known):
        return []
    return [row for row, value in enumerate(values) if value == min(known)]

"""Groups of runs with the same scenario and strategy, which differ in their seed."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from pulsar_rebalancer.lab.simulate.runs import Made


def grouped(made: Sequence[Made]) -> dict[tuple[str, str], list[Made]]:
    """Runs by scenario and strategy, in the order of the requests."""
    groups: dict[tuple[str, str], list[Made]] = {}
    for one in made:
        groups.setdefault((one.scenario, one.label), []).append(one)
    return groups


def median(values: Sequence[float]) -> float:
    """The median. ∞ is larger than all; NaN are left out."""
    known = sorted(value for value in values if not isnan(value))
    if not known:
        return float("nan")
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    return low if low == high else (low + high) / 2

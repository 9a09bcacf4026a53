"""Proves how near a cluster is to its optimum: lower bounds of the spread that whole bundles can
reach, and of what must move to reach a spread. They hold for every algorithm.
"""

from __future__ import annotations

import numpy as np

from strategies.bundles.bundle_loads import Floats
from strategies.shedding.steady.set_search import searched_spread
from strategies.shedding.steady.spread_bounds import (
    Packing,
    by_groups,
    by_placing,
    by_steps,
    highest_trough,
    lowest_peak,
)

#: Part of the peak by which a bound is rounded down.
_ROUNDING = 1e-9
#: Halvings of a bracket.
_HALVINGS = 60


def best_spread(sizes: Floats, fixed: Floats, capacity: Floats, divisible: float = 0.0) -> float:
    """A lower bound of the highest minus the lowest usage, in points, over all assignments of
    whole bundles to brokers.

    `sizes`: float64[bundles], load of the bundles that can move; `fixed`: float64[n], usage in
    points from what can not; `capacity`: float64[n], load per point; `divisible`: load of further
    bundles, of which only the sum is known. Costs milliseconds for small clusters, tens of
    milliseconds for 500,000 bundles; with hundreds of thousands of bundles it is enough to list
    the largest ones.
    """
    if len(fixed) < 2:
        return 0.0
    packing = Packing.of(sizes, fixed, capacity, divisible)
    peak, trough = lowest_peak(packing), highest_trough(packing)
    proven = max(by_steps(packing, peak, trough), by_groups(packing), by_placing(packing))
    proven = searched_spread(packing, peak, trough, proven)
    return max(0.0, proven - _ROUNDING * peak)


def least_to_move(usage: Floats, capacity: Floats, spread: float, bytes_per_load: Floats) -> float:
    """A lower bound of the bytes/s that must move so that all usages are within `spread`.

    `usage`: float64[n] in points; `capacity`: float64[n], load per point; `bytes_per_load`:
    float64[n], of the bundle of each broker with the fewest bytes/s per load. With ones, the bound
    is in units of load. The band of width `spread` is placed where the larger of two amounts is
    smallest: what is above it must leave its brokers, and what is missing below it must come from
    somewhere.
    """
    order = np.lexsort((bytes_per_load, capacity, usage))
    usage, capacity, price = usage[order], capacity[order], bytes_per_load[order]
    cheapest = float(price.min(initial=np.inf))

    def leaving(low: float) -> float:
        return float((capacity * np.maximum(usage - spread - low, 0.0) * price).sum())

    def arriving(low: float) -> float:
        return cheapest * float((capacity * np.maximum(low - usage, 0.0)).sum())

    if not len(usage) or usage[-1] - usage[0] <= spread:
        return 0.0
    low, high = float(usage[0]), float(usage[-1]) - spread
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if leaving(middle) > arriving(middle):
            low = middle
        else:
            high = middle
    # Anywhere between the two ends, at least this much leaves, and at least this much arrives.
    return (1 - _ROUNDING) * max(leaving(high), arriving(low))

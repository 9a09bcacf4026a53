"""Proves how near a cluster is to its optimum: lower bounds of the spread that whole bundles can
reach, and of what must move to reach a spread. They hold for every algorithm.
"""

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.round_figures import Certificate
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.exact_optimum_search import searched_spread
from strategies.shedding.steady.planned_cluster import LoadedBrokers, MovePlan, Pieces
from strategies.shedding.steady.whole_bundle_bounds import (
    Packing,
    by_groups,
    by_placing,
    by_steps,
    counted_spread,
    highest_trough,
    lowest_peak,
)

#: Part of a bound by which it is rounded down.
_ROUNDING = 1e-9
#: Halvings of a bracket.
_HALVINGS = 60


def certified(brokers: LoadedBrokers, plan: MovePlan, whole: bool = True) -> Certificate:
    """The bounds of a round with this plan. `whole`: `brokers` are the whole cluster; bounds of a
    part of it would prove nothing.
    """
    moved = 0.0 + ordered_sum(
        float(
            brokers.pieces(one.source).throughput[
                brokers.pieces(one.source).names.index(one.bundle)
            ]
        )
        for one in plan.moves
    )
    if not whole:
        return Certificate(plan.spread / 100, None, moved, None)
    pieces = [brokers.pieces(row) for row in range(len(brokers.usage))]
    least = 0.0
    if plan.moves:
        prices = np.array([_cheapest(one) for one in pieces])
        # Nothing leaves a broker without load: the lowest price of the others bounds that.
        prices = np.where(np.isinf(prices), prices.min(), prices)
        least = least_to_move(brokers.usage, brokers.capacity, plan.spread, prices)
    # Sorted, because the order of the bundles must not change a sum.
    free = [np.sort(np.where(one.bound, 0.0, one.sizes)) for one in pieces]
    carried = np.array([float(sizes.sum()) for sizes in free])
    fixed = brokers.usage - carried / brokers.capacity
    bound = best_spread(np.concatenate(free), fixed, brokers.capacity)
    return Certificate(plan.spread / 100, min(bound, plan.spread) / 100, moved, min(least, moved))


def _cheapest(pieces: Pieces) -> float:
    """Fewest bytes/s per load of a broker's bundles; infinite without load."""
    loaded = pieces.sizes > 0
    return float((pieces.throughput[loaded] / pieces.sizes[loaded]).min(initial=np.inf))


def best_spread(sizes: Floats, fixed: Floats, capacity: Floats) -> float:
    """A lower bound of the highest minus the lowest usage, in points, over all assignments of
    whole bundles to brokers.

    `sizes`: float64[bundles], load of the bundles that can move; `fixed`: float64[n], usage in
    points from what can not; `capacity`: float64[n], load per point. Costs milliseconds for small
    clusters, tens of milliseconds for 500,000 bundles.
    """
    if len(fixed) < 2:
        return 0.0
    packing = Packing.of(sizes, fixed, capacity)
    peak, trough = lowest_peak(packing), highest_trough(packing)
    proven = max(by_steps(packing, peak, trough), by_groups(packing), by_placing(packing))
    proven = counted_spread(packing, peak, trough, proven)
    proven = searched_spread(packing, peak, trough, proven)
    return max(0.0, proven - _ROUNDING * peak)


def least_to_move(usage: Floats, capacity: Floats, spread: float, bytes_per_load: Floats) -> float:
    """A lower bound of the bytes/s that must move so that all usages are within `spread`.

    `usage`: float64[n] in points; `capacity`: float64[n], load per point; `bytes_per_load`:
    float64[n], of the bundle of each broker with the fewest bytes/s per load. With ones, the bound
    is in units of load.

    The usages end in a band of width `spread`. What is above it must leave its brokers, and what is
    missing below it must come from somewhere: the bound is the larger of both, in the band where
    that is smallest.
    """
    order = np.lexsort((bytes_per_load, capacity, usage))
    usage, capacity, price = usage[order], capacity[order], bytes_per_load[order]
    cheapest = float(price.min(initial=np.inf))

    def leaving(low: float) -> float:
        return float((capacity * np.maximum(usage - spread - low, 0.0) * price).sum())

    def arriving(low: float) -> float:
        return cheapest * float((capacity * np.maximum(low - usage, 0.0)).sum())

    low = float(usage.min(initial=np.inf))
    high = float(usage.max(initial=-np.inf)) - spread
    if high <= low:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if leaving(middle) > arriving(middle):
            low = middle
        else:
            high = middle
    # Wherever the best band is between the two ends, this much leaves, and this much arrives.
    return (1 - _ROUNDING) * max(leaving(high), arriving(low))

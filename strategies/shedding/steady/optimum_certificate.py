"""Proves how near a cluster is to its optimum: lower bounds of the spread that whole bundles can
reach, and of what must move to reach a spread. They hold for every algorithm.
"""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.round_figures import Certificate
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.exact_optimum_search import searched_spread
from strategies.shedding.steady.planned_cluster import (
    LoadedBrokers,
    MovePlan,
    spread_of,
)
from strategies.shedding.steady.whole_bundle_bounds import (
    Packing,
    by_placing,
    by_steps,
    counted_spread,
    highest_trough,
    lowest_peak,
)

_NONE = np.zeros(0), np.zeros(0)
#: Loads, ascending, and the fewest bytes/s that carry them: float64[m] twice. Between two of them
#: is what a part of a bundle carries.
LoadTraffic = tuple[Floats, Floats]
#: Part of a bound by which it is rounded down.
_ROUNDING = 1e-9
#: Halvings of a bracket.
_HALVINGS = 60


def certified(
    brokers: LoadedBrokers, plan: MovePlan, rest: tuple[Floats, Floats] | None = _NONE
) -> Certificate:
    """The bounds of a round with this plan. `rest`: usages (points) and capacities of the brokers
    of the cluster whose bundles are not read: their load counts as divisible, and as free to move.
    None: not all load is known, and bounds of a part of it would prove nothing.
    """
    moved = 0.0 + ordered_sum(
        float(
            brokers.pieces(one.source).throughput[
                brokers.pieces(one.source).names.index(one.bundle)
            ]
        )
        for one in plan.moves
    )
    if rest is None:
        return Certificate(plan.spread / 100, None, moved, None)
    after, usage = np.concatenate([plan.after, rest[0]]), np.concatenate([brokers.usage, rest[0]])
    capacity = np.concatenate([brokers.capacity, rest[1]])
    # Sorted, because the order of brokers and bundles must not change a sum.
    divisible = float(np.sort(rest[0] * rest[1]).sum())
    spread, pieces = spread_of(after), [brokers.pieces(row) for row in range(len(brokers.usage))]
    least = 0.0
    if plan.moves:
        fewest = [fewest_bytes(one.sizes, one.throughput) for one in pieces]
        fewest += [fewest_bytes(*_NONE)] * len(rest[0])
        sizes, throughput = (
            np.concatenate([*_NONE, *(columns(one) for one in pieces if not divisible)])
            for columns in (attrgetter("sizes"), attrgetter("throughput"))
        )
        least = least_to_move(usage, capacity, spread, fewest, fewest_bytes(sizes, throughput))
    free = [np.sort(np.where(one.bound, 0.0, one.sizes)) for one in pieces]
    carried = np.array([float(sizes.sum()) for sizes in free])
    fixed = np.concatenate([brokers.usage - carried / brokers.capacity, np.zeros(len(rest[0]))])
    bound = best_spread(np.concatenate(free), fixed, capacity, divisible)
    return Certificate(spread / 100, min(bound, spread) / 100, moved, min(least, moved))


def fewest_bytes(sizes: Floats, throughput: Floats) -> LoadTraffic:
    """Of bundles with these loads and bytes/s, float64[n] each: the 0, 1, … with the fewest bytes/s
    per load.
    """
    sizes, throughput = sizes[sizes > 0], throughput[sizes > 0]
    order = np.lexsort((sizes, throughput / sizes))
    load, traffic = (np.append(0.0, np.cumsum(one[order])) for one in (sizes, throughput))
    return load, traffic


def best_spread(sizes: Floats, fixed: Floats, capacity: Floats, divisible: float = 0.0) -> float:
    """A lower bound of the highest minus the lowest usage, in points, over all assignments of
    whole bundles to brokers.

    `sizes`: float64[bundles], load of the bundles that can move; `fixed`: float64[n], usage in
    points from what can not; `capacity`: float64[n], load per point; `divisible`: load that any
    parts of may be anywhere. Costs milliseconds for small clusters, tens of milliseconds for
    500,000 bundles.
    """
    if len(fixed) < 2:
        return 0.0
    packing = Packing.of(sizes, fixed, capacity, divisible)
    peak, trough = lowest_peak(packing), highest_trough(packing)
    proven = max(peak - trough, by_placing(packing))
    if not divisible:  # else a usage says nothing of numbers of bundles
        proven = max(proven, by_steps(packing, peak, trough))
        proven = counted_spread(packing, peak, trough, proven)
        proven = searched_spread(packing, peak, trough, proven)
    return max(0.0, proven - _ROUNDING * peak)


def least_to_move(
    usage: Floats,
    capacity: Floats,
    spread: float,
    fewest: Sequence[LoadTraffic],
    together: LoadTraffic,
) -> float:
    """A lower bound of the bytes/s that must move so that all usages are within `spread`.

    `usage`: float64[n] in points; `capacity`: float64[n], load per point; `fewest`: of
    the bundles of each broker, the load of the 0, 1, … with the fewest bytes/s per load, and
    their bytes/s; `together`: of all bundles.

    The usages end in a band of width `spread` around their mean. What is above it must leave its
    brokers, and what is missing below it must come from somewhere: the bound is the larger of both,
    in the band where that is smallest.
    """
    rows = np.lexsort((capacity, usage)).tolist()
    usage, capacity = usage[rows], capacity[rows]

    def leaving(low: float) -> float:
        loads = capacity * np.maximum(usage - spread - low, 0.0)
        above = np.flatnonzero(loads).tolist()
        # Sorted, because the order of equal brokers must not change a sum.
        return float(np.sort([np.interp(loads[at], *fewest[rows[at]]) for at in above]).sum())

    def arriving(low: float) -> float:
        return float(np.interp((capacity * np.maximum(low - usage, 0.0)).sum(), *together))

    low = float(usage.min(initial=np.inf))
    high = float(usage.max(initial=-np.inf)) - spread
    if high <= low:
        return 0.0
    high = min(high, float((capacity * usage).sum() / capacity.sum()))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if leaving(middle) > arriving(middle):
            low = middle
        else:
            high = middle
    # Wherever the best band is between the two ends, this much leaves, and this much arrives.
    return (1 - _ROUNDING) * max(leaving(high), arriving(low))

"""Proves how near a cluster is to its optimum: lower bounds of the spread that whole bundles can
reach, and of what must move to reach a spread. They hold for every algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from strategies.bundles.bundle_loads import Floats, Ints
from strategies.cluster.round_figures import Certificate
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.count_search import counted_spread
from strategies.shedding.steady.move_plan import LoadedBrokers, MovePlan, Pieces
from strategies.shedding.steady.set_search import searched_spread
from strategies.shedding.steady.spread_bounds import (
    Packing,
    by_groups,
    by_placing,
    by_steps,
    highest_trough,
    lowest_peak,
)

#: Part of the peak by which a bound is rounded down, and of all traffic by which sums may be wrong.
_ROUNDING, _SUMS = 1e-9, 1e-12
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
    bound = _best_spread_of(brokers, pieces)
    return Certificate(plan.spread / 100, min(bound, plan.spread) / 100, moved, min(least, moved))


def _best_spread_of(brokers: LoadedBrokers, pieces: Sequence[Pieces]) -> float:
    # Sorted, because the order of the bundles must not change a sum.
    free = [np.sort(np.where(one.bound, 0.0, one.sizes)) for one in pieces]
    carried = np.array([float(sizes.sum()) for sizes in free])
    return best_spread(
        np.concatenate(free), brokers.usage - carried / brokers.capacity, brokers.capacity
    )


def _cheapest(pieces: Pieces) -> float:
    """Fewest bytes/s per load of a broker's bundles; infinite without load."""
    loaded = pieces.sizes > 0
    return float((pieces.throughput[loaded] / pieces.sizes[loaded]).min(initial=np.inf))


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
    proven = counted_spread(packing, peak, trough, proven)
    proven = searched_spread(packing, peak, trough, proven)
    return max(0.0, proven - _ROUNDING * peak)


def least_to_move(usage: Floats, capacity: Floats, spread: float, bytes_per_load: Floats) -> float:
    """A lower bound of the bytes/s that must move so that all usages are within `spread`.

    `usage`: float64[n] in points; `capacity`: float64[n], load per point; `bytes_per_load`:
    float64[n], of the bundle of each broker with the fewest bytes/s per load. With ones, the bound
    is in units of load.
    """
    order = np.lexsort((bytes_per_load, capacity, usage))
    price, cheapest = bytes_per_load[order], float(bytes_per_load.min(initial=np.inf))
    return _cheapest_band(
        _Band(usage[order], capacity[order], spread),
        lambda excess: float((excess * price).sum()),
        lambda lack: cheapest * lack,
    )


def least_of_bundles(usage: Floats, capacity: Floats, spread: float, bundles: Movable) -> float:
    """`least_to_move` with the cheapest bundles of each broker first, and hence higher. It sorts
    the bundles, which takes milliseconds for 10,000 of them, so that large clusters use the other.
    """
    own, all_ = bundles.by_price(by_owner=True), bundles.by_price(by_owner=False)
    first = np.searchsorted(own.owner, np.arange(len(usage)))
    end = np.searchsorted(own.owner, np.arange(len(usage)), side="right")
    loads, traffic = _running(own.loads), _running(own.traffic)

    def leaving(excess: Floats) -> float:
        # A broker can not give more than it has; what it has is a lower bound as well.
        upto = np.minimum(loads[first] + excess, loads[end])
        return float((np.interp(upto, loads, traffic) - traffic[first]).sum())

    all_loads, all_traffic = _running(all_.loads), _running(all_.traffic)
    found = _cheapest_band(
        _Band(usage, capacity, spread),
        leaving,
        lambda lack: float(np.interp(lack, all_loads, all_traffic)),
    )
    return max(0.0, found - _SUMS * float(traffic[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class Movable:
    """Bundles that can move. `owner`: int64[k], row of the broker; `loads`: float64[k], above 0;
    `traffic`: float64[k], bytes/s.
    """

    owner: Ints
    loads: Floats
    traffic: Floats

    def by_price(self, *, by_owner: bool) -> Movable:
        """The bundles with the fewest bytes/s per load first, of each broker or of all."""
        price = self.traffic / self.loads
        order = np.lexsort((price, self.owner)) if by_owner else np.argsort(price, kind="stable")
        return Movable(self.owner[order], self.loads[order], self.traffic[order])


@dataclass(frozen=True, slots=True, eq=False)
class _Band:
    """Usages that are to come into a band of width `spread`; the arguments of `least_to_move`."""

    usage: Floats
    capacity: Floats
    spread: float

    def excess(self, low: float) -> Floats:
        """float64[n]: load above the band from `low` on."""
        return np.asarray(self.capacity * np.maximum(self.usage - self.spread - low, 0.0))

    def lack(self, low: float) -> float:
        """Load missing below the band."""
        return float((self.capacity * np.maximum(low - self.usage, 0.0)).sum())


def _cheapest_band(
    band: _Band, leaving: Callable[[Floats], float], arriving: Callable[[float], float]
) -> float:
    """What must move with the band where the larger of two costs is smallest: what is above it must
    leave its brokers (`leaving`, of load per broker), and what is missing below it must come from
    somewhere (`arriving`, of load).
    """
    low = float(band.usage.min(initial=np.inf))
    high = float(band.usage.max(initial=-np.inf)) - band.spread
    if high <= low:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if leaving(band.excess(middle)) > arriving(band.lack(middle)):
            low = middle
        else:
            high = middle
    # Wherever the best band is between the two ends, this much leaves, and this much arrives.
    return (1 - _ROUNDING) * max(leaving(band.excess(high)), arriving(band.lack(low)))


def _running(figures: Floats) -> Floats:
    """float64[k+1]: sums of the first 0, 1, …"""
    return np.concatenate([np.zeros(1), np.cumsum(figures)])

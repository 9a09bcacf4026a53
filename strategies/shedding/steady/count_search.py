"""A lower bound of the spread from the numbers of bundles on each broker. Close where bundles are
nearly equal.

An assignment with a spread below a target leaves each broker few numbers of bundles to choose from.
For given numbers, any group of brokers carries at least the load of the smallest bundles, of as
many as it has, and at most that of the largest ones. The fullest broker is not below the mean usage
of any group, the emptiest not above it.
"""

from __future__ import annotations

import numpy as np

from strategies.bundles.bundle_loads import Floats, Ints
from strategies.shedding.steady.spread_bounds import Packing

#: Brokers up to which groups are listed; groups times choices of numbers that are compared: about
#: 5 ms.
_BROKERS, _CELLS = 12, 400_000
#: Targets that are tried; first step of the target, in points, and as part of what is proven; part
#: of a step that is tried after one that was too far.
_TARGETS, _STEP_POINTS, _STEP_PART, _BACK = 8, 0.25, 0.1, 0.25


def counted_spread(packing: Packing, peak: float, trough: float, proven: float) -> float:
    """A spread that no assignment falls below, at least `proven`. `peak`: usage that the fullest
    broker reaches in every assignment; `trough`: usage that the emptiest does not exceed.
    """
    bundles = len(packing.sizes)
    if not bundles or not 2 <= packing.brokers <= _BROKERS or packing.divisible:
        return proven
    groups = _groups(packing.brokers)
    step = max(_STEP_POINTS, _STEP_PART * proven)
    for _ in range(_TARGETS):
        target = proven + step
        numbers = _numbers(packing, peak - target, trough + target, _CELLS // len(groups))
        if numbers is None:
            step *= _BACK
            continue
        least = float(_least(packing, groups, numbers).min(initial=target))
        proven, step = max(proven, least), 2 * step
        if least < target:
            break
    return proven


def _groups(brokers: int) -> Ints:
    """int64[2^brokers − 1, brokers]: 1 for the members of each group."""
    return np.asarray(np.arange(1, 1 << brokers)[:, None] >> np.arange(brokers) & 1)


def _numbers(packing: Packing, low: float, high: float, most: int) -> Ints | None:
    """int64[choices, brokers]: the numbers of bundles on each broker with which all usages can be
    between `low` and `high`; None if there are more than `most`.
    """
    needs = packing.capacity * (low - packing.fixed) - packing.slack
    room = packing.capacity * (high - packing.fixed) + packing.slack
    bundles, smallest = len(packing.sizes), _smallest(packing)
    fewest = np.where(needs > 0, np.searchsorted(packing.sums, needs), 0)
    largest = np.searchsorted(smallest, room, side="right") - 1
    choices, left = np.zeros((1, 0), dtype=np.int64), np.array([bundles])
    for row in range(packing.brokers):
        # What the brokers after this one need at least, and can carry at most.
        least, greatest = fewest[row + 1 :].sum(), largest[row + 1 :].sum()
        if len(choices) * (largest[row] - fewest[row] + 1) > 8 * most:
            return None
        added = np.arange(fewest[row], largest[row] + 1)
        rest = left[:, None] - added[None, :]
        before, chosen = np.nonzero((rest >= least) & (rest <= greatest))
        choices = np.column_stack([choices[before], added[chosen]])
        left = rest[before, chosen]
        if len(choices) > most:
            return None
    return choices


def _least(packing: Packing, groups: Ints, numbers: Ints) -> Floats:
    """float64[choices]: the spread that no assignment with these numbers falls below."""
    capacity = (groups * packing.capacity).sum(axis=1)
    idle = (groups * (packing.capacity * packing.fixed)).sum(axis=1)
    together = numbers @ groups.T
    fullest = (idle + _smallest(packing)[together]) / capacity
    emptiest = (idle + packing.sums[together]) / capacity
    return np.asarray(fullest.max(axis=1) - emptiest.min(axis=1))


def _smallest(packing: Packing) -> Floats:
    """float64[k+1]: load of the 0, 1, … k smallest bundles."""
    return np.concatenate([np.zeros(1), np.cumsum(packing.sizes[::-1])])

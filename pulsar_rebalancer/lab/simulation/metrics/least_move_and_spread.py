"""Bounds of any balancing: the least load that must move, and the lowest spread that whole bundles
can reach.

The first bound holds for every algorithm, because it assumes that load is divisible.
"""

from collections.abc import Callable, Iterator
from math import nan

import numpy as np

from strategies.bundles import Floats, Ints

#: Maximum number of improving moves and swaps that are tried.
_STEPS = 400


def least_to_move(usage: Floats, spread: float, capacity: Floats) -> float:
    """The load that must move so that all usages are within `spread` of each other.

    `usage`: float64[n]; `capacity`: load per unit of usage of each broker. In units of load.
    The band of
    width `spread` is placed to minimise the larger of the excess above it and the deficit below it.
    """
    return _least(
        np.concatenate([usage, usage - spread]),
        lambda low: _above(usage - spread - low, capacity),
        lambda low: _above(low - usage, capacity),
    )


def attainable_spread(sizes: Floats, idle: Floats, capacity: Floats) -> float:
    """A spread of usages that whole bundles can reach. Not proven to be the lowest; tests check
    small cases exactly.

    `sizes`: float64[bundles] in units of load; `idle`: float64[brokers], usage without bundles;
    `capacity`: load per unit of usage.
    """
    if len(idle) < 2:
        return 0.0
    owner, usage = _largest_first(sizes, idle, capacity)
    best = float(np.ptp(usage))
    for _ in range(_STEPS):
        step = _best_step(sizes, owner, usage, capacity)
        if step is None:
            break
        for row, target in step:
            usage[owner[row]] -= sizes[row] / capacity[owner[row]]
            usage[target] += sizes[row] / capacity[target]
            owner[row] = target
        best = min(best, float(np.ptp(usage)))
    return best


def largest_over_share(sizes: Floats, brokers: int) -> float:
    """The largest bundle ÷ a broker's fair share of all; above 1 only a split helps. NaN without
    load.
    """
    return (
        float(sizes.max()) / float(sizes.sum()) * brokers if len(sizes) and sizes.sum() > 0 else nan
    )


def _above(figures: Floats, weights: Floats) -> float:
    return float((np.maximum(figures, 0.0) * weights).sum())


def _least(
    edges: Floats, excess: Callable[[float], float], deficit: Callable[[float], float]
) -> float:
    """The smallest maximum of a falling and a rising function, both linear between edges."""
    lows = np.unique(edges)
    first, last = 0, len(lows) - 1
    while last - first > 1:
        middle = (first + last) // 2
        if excess(float(lows[middle])) > deficit(float(lows[middle])):
            first = middle
        else:
            last = middle
    low, high = float(lows[first]), float(lows[last])
    gap_low, gap_high = excess(low) - deficit(low), excess(high) - deficit(high)
    if gap_low <= 0:
        return deficit(low)
    if gap_high >= 0:
        return excess(high)
    part = gap_low / (gap_low - gap_high)
    return excess(low) + part * (excess(high) - excess(low))


def _largest_first(sizes: Floats, idle: Floats, capacity: Floats) -> tuple[Ints, Floats]:
    usage, owner = idle.astype(np.float64), np.empty(len(sizes), dtype=np.int64)
    for row in np.argsort(-sizes, kind="stable").tolist():
        target = int((usage + sizes[row] / capacity).argmin())
        usage[target] += sizes[row] / capacity[target]
        owner[row] = target
    return owner, usage


def _best_step(
    sizes: Floats, owner: Ints, usage: Floats, capacity: Floats
) -> list[tuple[int, int]] | None:
    """The move or swap that brings two brokers closest to the mean, one of them the fullest or
    emptiest; None if none improves.
    """
    mean = float(usage.mean())
    enough = -1e-12 * max(1.0, float(np.square(usage - mean).sum()))
    best, found = enough, None
    for one, other in _pairs(usage):
        mine, theirs = np.flatnonzero(owner == one), np.append(np.flatnonzero(owner == other), -1)
        if not len(mine):
            continue
        moved = sizes[mine][:, None] - np.where(theirs >= 0, sizes[theirs], 0.0)[None, :]
        after = np.square(usage[one] - moved / capacity[one] - mean) + np.square(
            usage[other] + moved / capacity[other] - mean
        )
        change = after - np.square(usage[one] - mean) - np.square(usage[other] - mean)
        place = np.unravel_index(int(change.argmin()), change.shape)
        if change[place] < best:
            row, partner = int(mine[place[0]]), int(theirs[place[1]])
            best, found = (
                float(change[place]),
                [(row, other), *([] if partner < 0 else [(partner, one)])],
            )
    return found


def _pairs(usage: Floats) -> Iterator[tuple[int, int]]:
    full, empty = int(usage.argmax()), int(usage.argmin())
    for broker in range(len(usage)):
        if broker != full:
            yield full, broker
        if broker not in (full, empty):
            yield broker, empty

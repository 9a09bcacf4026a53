"""The lowest spread of a few bundles on a few brokers, by search.

The search asks whether any assignment has a spread below a target. Then every broker must end
within the target of the known peak and trough, so only few sets of bundles suit it, and brokers
take disjoint sets one after the other. If no assignment is left, the target is proven, and a higher
one is tried; if all remaining assignments were listed, their lowest spread is the exact one. What
would take too long is left open.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.bundles import Bools, Floats, Ints
from strategies.shedding.steady.whole_bundle_bounds import Packing, water_levels

#: Bundles and brokers up to which sets are searched.
_BUNDLES, _BROKERS = 32, 12
#: Targets that are tried, and pairs of a partial assignment and a set that are compared: about 15
#: ms. To list a set, and to make a partial assignment, costs as much as a number of pairs.
_TARGETS, _PAIRS, _PER_SET, _PER_PARTIAL = 12, 1_500_000, 8, 20
#: First step of the target, in points, and as part of what is proven.
_STEP_POINTS, _STEP_PART = 0.25, 0.1
#: Part of a step that is tried after one that was too far.
_BACK = 0.25


@dataclass(slots=True)
class _WorkLeft:
    """Pairs that may still be compared."""

    pairs: int

    def pays(self, pairs: int) -> bool:
        """Takes this number of pairs, if there are as many."""
        if pairs > self.pairs:
            return False
        self.pairs -= pairs
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """Sets of bundles. `members`: int64[m], bit i stands for the i-th bundle, the smallest first;
    `loads`: float64[m].
    """

    members: Ints
    loads: Floats

    def between(self, low: float, high: float) -> "_Sets":
        chosen = (self.loads >= low) & (self.loads <= high)
        return _Sets(self.members[chosen], self.loads[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class _Partial:
    """Assignments to the first brokers, as columns of length m. `taken`: bundles that are placed;
    `rest`: load not yet placed; `peak`, `trough`: of the usages so far; `least`: spread that no
    completion falls below.
    """

    taken: Ints
    rest: Floats
    peak: Floats
    trough: Floats
    least: Floats

    def where(self, chosen: Bools | Ints) -> "_Partial":
        return _Partial(
            self.taken[chosen],
            self.rest[chosen],
            self.peak[chosen],
            self.trough[chosen],
            self.least[chosen],
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """`proven`: spread that no assignment falls below; `exact`: one reaches it; `finished`: the
    search came to its end.
    """

    proven: float
    exact: bool
    finished: bool


def searched_spread(packing: Packing, peak: float, trough: float, proven: float) -> float:
    """A spread that no assignment falls below, at least `proven`. `peak`: usage that the fullest
    broker reaches in every assignment; `trough`: usage that the emptiest does not exceed.
    """
    is_small = 0 < len(packing.sizes) <= _BUNDLES and 2 <= packing.brokers <= _BROKERS
    if not is_small:
        return proven
    reached, budget = _largest_first(packing), _WorkLeft(_PAIRS)
    step = max(_STEP_POINTS, _STEP_PART * proven)
    for _ in range(_TARGETS):
        if proven >= reached:
            break
        found = _search(packing, peak, trough, min(proven + step, reached), budget)
        proven = max(proven, found.proven)
        if found.exact:
            break
        step *= 2 if found.finished else _BACK
    return proven


def _search(
    packing: Packing, peak: float, trough: float, target: float, budget: _WorkLeft
) -> _Found:
    """What the assignments with a spread below `target` show."""
    low = packing.capacity * (peak - target - packing.fixed) - packing.slack
    high = packing.capacity * (trough + target - packing.fixed) + packing.slack
    # The roomiest broker takes the rest, so that its sets, the largest ones, need not be listed.
    last = int(high.argmax())
    others = [row for row in range(packing.brokers) if row != last]
    sets = _sets(packing.sizes[::-1], float(high[others].max()), budget)
    if sets is None:
        return _Found(0.0, exact=False, finished=False)
    suited = {row: sets.between(low[row], high[row]) for row in others}
    # Brokers that few sets suit come first: they leave the fewest partial assignments.
    order = [*sorted(others, key=lambda row: (len(suited[row].members), row)), last]
    none, nothing = np.zeros(1, dtype=np.int64), np.zeros(1)
    partial = _Partial(none, nothing + packing.load, nothing - np.inf, nothing + np.inf, nothing)
    for at, row in enumerate(order[:-1]):
        more = _continued(partial, suited[row], packing, order[at:], budget)
        if more is None:
            least = float(partial.least.min())
            return _Found(min(least, target), exact=False, finished=False)
        partial = more.where(more.least < target)
        if not len(partial.taken):
            return _Found(target, exact=False, finished=True)
        partial = _undominated(partial)
    return _Found(float(partial.least.min()), exact=True, finished=True)


def _sets(sizes: Floats, most: float, budget: _WorkLeft) -> _Sets | None:
    """All sets with a load of at most `most`; None if the budget does not suffice. `sizes`:
    ascending.
    """
    members, loads = np.zeros(1, dtype=np.int64), np.zeros(1)
    latest = np.full(1, -1)
    layers = [_Sets(members, loads)]
    while len(members):
        # Each set grows by one bundle after its latest one.
        added = np.maximum(np.searchsorted(sizes, most - loads, side="right") - latest - 1, 0)
        if not budget.pays(_PER_SET * int(added.sum())):
            return None
        grown = np.repeat(np.arange(len(members)), added)
        first = np.cumsum(added) - added
        latest = latest[grown] + 1 + np.arange(len(grown)) - first[grown]
        members = members[grown] | (np.int64(1) << latest)
        loads = loads[grown] + sizes[latest]
        layers.append(_Sets(members, loads))
    return _Sets(
        np.concatenate([one.members for one in layers]),
        np.concatenate([one.loads for one in layers]),
    )


def _continued(
    partial: _Partial, sets: _Sets, packing: Packing, free: Sequence[int], budget: _WorkLeft
) -> _Partial | None:
    """All continuations on the first of the free brokers; None if the budget does not suffice. The
    last broker takes the rest, which makes it as full as the water level of this broker alone.
    """
    if not budget.pays(len(partial.taken) * len(sets.members)):
        return None
    allowed = _allowed(partial, sets, packing, free)
    if not budget.pays(_PER_PARTIAL * int(allowed.sum())):
        return None
    before, chosen = np.nonzero(allowed)
    row, others = free[0], np.sort(np.array(free[1:]))
    usage = packing.fixed[row] + sets.loads[chosen] / packing.capacity[row]
    rest = partial.rest[before] - sets.loads[chosen]
    level = water_levels(packing.fixed[others], packing.capacity[others], rest)
    peak = np.maximum(partial.peak[before], usage)
    trough = np.minimum(partial.trough[before], usage)
    highest = np.maximum(peak, np.maximum(level, packing.fixed[others[-1]]))
    taken = partial.taken[before] | sets.members[chosen]
    return _Partial(taken, rest, peak, trough, highest - np.minimum(trough, level))


def _allowed(partial: _Partial, sets: _Sets, packing: Packing, free: Sequence[int]) -> Bools:
    """bool[partial, sets]: whether the first of the free brokers may take a set. Equal brokers are
    exchangeable: if all free ones are equal, the first takes the largest bundle that is left.
    """
    allowed = (partial.taken[:, None] & sets.members[None, :]) == 0
    if len(np.unique(packing.fixed[free])) == len(np.unique(packing.capacity[free])) == 1:
        left = (np.int64(1) << len(packing.sizes)) - 1 - partial.taken
        allowed &= 2 * sets.members[None, :] >= left[:, None]
    return np.asarray(allowed)


def _undominated(partial: _Partial) -> _Partial:
    """Without assignments for which another one of the same bundles has a peak that is not higher
    and a trough that is not lower.
    """
    order = np.lexsort((partial.peak, -partial.trough, partial.taken))
    taken = partial.taken[order]
    group = np.cumsum(np.append(False, taken[1:] != taken[:-1]))
    rank = np.argsort(np.argsort(partial.peak, kind="stable"), kind="stable")[order]
    # A group's ranks are below those of the groups before it: the lowest so far is its own.
    rank -= group * len(order)
    kept = np.append(True, rank[1:] < np.minimum.accumulate(rank)[:-1])
    return partial.where(np.sort(order[kept]))


def _largest_first(packing: Packing) -> float:
    """The spread of the usual heuristic: the largest bundle goes where it ends lowest."""
    usage = packing.fixed.copy()
    for size in packing.sizes.tolist():
        row = int((usage + size / packing.capacity).argmin())
        usage[row] += size / packing.capacity[row]
    return float(usage.max() - usage.min())

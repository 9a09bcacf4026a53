"""Lower bounds of the spread that whole bundles can reach, by volume and by counting.

Each bound holds for every assignment of bundles to brokers: the fullest broker is at least at
`lowest_peak`, the emptiest at most at `highest_trough`, and the other functions bound their
difference where the two depend on each other. Comparisons leave room for rounding
(`Packing.slack`), always towards the lower bound.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from strategies.bundles import Floats, Ints

#: Part of all load by which sums of floats may be wrong.
_SLACK = 1e-9
#: Comparisons per test of a usage; beyond it, subsets are left out, which only weakens a bound.
_COMPARISONS = 1 << 13
#: Halvings of a bracket; fewer where each takes milliseconds.
_HALVINGS, _FEW_HALVINGS = 36, 10
#: Cells of the tables of `by_steps`; larger clusters do without.
_CELLS = 300_000
#: Largest bundles that `by_placing` places, and the usages of all brokers in all placings.
_PLACED, _PLACINGS = 12, 40_000
#: Numbers of largest bundles that `by_steps` sets aside.
_ASIDE = 4
#: Brokers up to which `counted_spread` lists groups; groups times choices of numbers that are
#: compared: about 5 ms.
_BROKERS, _CHOICES = 12, 400_000
#: Targets that it tries; first step of the target, in points, and as part of what is proven; part
#: of a step that it tries after one that was too far.
_TARGETS, _STEP_POINTS, _STEP_PART, _BACK = 8, 0.25, 0.1, 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Bundles and brokers in an order that does not depend on how they were given.

    `sizes`: float64[k], load of bundles, largest first, without empty ones; `sums`: float64[k+1],
    load of the 0, 1, … k largest; `fixed`: float64[n], usage in points from what can not move,
    ascending, shifted so that the lowest is 0; `capacity`: float64[n], load per point; `divisible`:
    load of which any part may be anywhere.
    """

    sizes: Floats
    sums: Floats
    fixed: Floats
    capacity: Floats
    divisible: float = 0.0

    @classmethod
    def of(
        cls, sizes: Floats, fixed: Floats, capacity: Floats, divisible: float = 0.0
    ) -> "Packing":
        """The same packing for any order of bundles and brokers."""
        order = np.lexsort((capacity, fixed))
        largest_first = np.sort(sizes[sizes > 0])[::-1]
        sums = np.concatenate([np.zeros(1), np.cumsum(largest_first)])
        lowest_first = fixed[order] - fixed[order[0]]
        return cls(largest_first, sums, lowest_first, capacity[order], divisible)

    @property
    def brokers(self) -> int:
        return len(self.fixed)

    @property
    def smallest(self) -> Floats:
        """float64[k+1]: load of the 0, 1, … k smallest bundles."""
        return np.concatenate([np.zeros(1), np.cumsum(self.sizes[::-1])])

    @property
    def load(self) -> float:
        """The load of all bundles, and what is divisible."""
        return float(self.sums[-1]) + self.divisible

    @property
    def slack(self) -> float:
        """Load by which sums may be wrong."""
        return _SLACK * self.load


def water_levels(fixed: Floats, capacity: Floats, loads: Floats) -> Floats:
    """float64[m]: the usage up to which each of `loads` (float64[m]) fills the brokers if it is
    divisible. No assignment has a fuller emptiest broker, nor, if fixed usages are below it, an
    emptier fullest one. `fixed`: ascending.
    """
    reached = (loads[:, None] + np.cumsum(capacity * fixed)) / np.cumsum(capacity)
    return np.asarray(reached.min(axis=1))


def water_level(packing: Packing) -> float:
    """The level of all load on all brokers."""
    return float(water_levels(packing.fixed, packing.capacity, np.array([packing.load]))[0])


def lowest_peak(packing: Packing) -> float:
    """A usage that the fullest broker reaches in every assignment.

    Besides the water level: of the m largest bundles a broker below usage h carries at most the
    number of the smallest of them that fit; these numbers must add up to m. With equal brokers and
    m = k·n + 1 this is the pigeonhole: one of them carries k + 1.
    """
    start = max(water_level(packing), float(packing.fixed[-1]))
    if not len(packing.sizes):
        return start
    tops, sums = _tops(packing), packing.sums

    def fits(usage: float) -> bool:
        room = packing.capacity * (usage - packing.fixed) + packing.slack
        carried = tops[:, None] - np.searchsorted(sums, sums[tops][:, None] - room[None, :])
        return bool((np.maximum(carried, 0).sum(axis=1) >= tops).all())

    above = start + 2 * float(packing.sizes[0] / packing.capacity.max())
    return _last_failing(fits, start, above, len(tops) * packing.brokers)


def highest_trough(packing: Packing) -> float:
    """A usage that the emptiest broker does not exceed in any assignment.

    The k largest bundles are on at most k brokers. The others reach usage l without them: their
    load and the k bundles must not exceed all load, and the bundles that each of them needs at
    least (the largest of the rest) must not exceed the number of the rest.
    """
    start = water_level(packing)
    aside = _some(min(packing.brokers, len(packing.sizes)), _COMPARISONS // packing.brokers)
    if not len(aside):
        return start
    left, sums = packing.brokers - aside, packing.sums

    def fits(usage: float) -> bool:
        needs = np.sort(np.maximum(packing.capacity * (usage - packing.fixed), 0.0))
        volume = np.concatenate([np.zeros(1), np.cumsum(needs)])
        if bool((sums[aside] + volume[left] > packing.load + packing.slack).any()):
            return False
        if packing.divisible:  # no bundles are needed
            return True
        ends = np.searchsorted(sums, sums[aside][:, None] + needs[None, :] - packing.slack)
        needed = np.cumsum(np.maximum(ends - aside[:, None], 0), axis=1)
        taken = needed[np.arange(len(aside)), left - 1]
        return bool((taken <= len(packing.sizes) - aside).all())

    return _last_failing(fits, start, 0.0, len(aside) * packing.brokers)


def by_placing(packing: Packing) -> float:
    """Places the largest bundles in every way and takes the rest for divisible. Of use where
    brokers differ.
    """
    best, usage, capacity = 0.0, packing.fixed[None, :], packing.capacity
    for at, size in enumerate(packing.sizes[:_PLACED].tolist()):
        if usage.size * packing.brokers > _PLACINGS or (at == 2 and best == 0.0):
            break
        added = np.diag(size / capacity)
        usage = (usage[:, None, :] + added[None, :, :]).reshape(-1, packing.brokers)
        order = np.argsort(usage, axis=1, kind="stable")
        rising, fills = np.take_along_axis(usage, order, axis=1), capacity[order]
        rest = packing.load - float(packing.sums[at + 1])
        levels = (rest + np.cumsum(fills * rising, axis=1)) / np.cumsum(fills, axis=1)
        level = levels.min(axis=1)
        best = max(best, float((np.maximum(rising[:, -1], level) - level).min()))
    return best


def by_steps(packing: Packing, peak: float, trough: float) -> float:
    """Usages of a broker come in steps of bundles. For the usage l of the emptiest broker, each
    broker needs a least number of bundles, and is then at least as full as the smallest of them
    would make it. Between two steps the spread is least at the upper one, so only steps are tried.

    As in `highest_trough`, the k largest bundles are set aside, with at most k brokers.
    """
    best, count = peak - trough, packing.brokers
    if count * count * len(packing.sizes) > _CELLS:
        return best
    for aside in range(min(count - 1, _ASIDE, len(packing.sizes))):
        bundles = len(packing.sizes) - aside
        sums = packing.sums[aside:] - packing.sums[aside]
        steps = np.unique(packing.fixed[:, None] + sums[None, :] / packing.capacity[:, None])
        usage = np.append(steps[steps < trough], trough)
        load = packing.capacity * (usage[:, None] - packing.fixed) - packing.slack
        needed = np.where(load > 0, np.searchsorted(sums, load), 0)
        full = packing.fixed + packing.smallest[np.minimum(needed, bundles)] / packing.capacity
        full = np.where(needed <= bundles, full, np.inf)
        highest = np.sort(full, axis=1)[:, count - 1 - aside]
        possible = np.sort(needed, axis=1)[:, : count - aside].sum(axis=1) <= bundles
        spreads = np.where(possible, np.maximum(highest, peak) - usage, np.inf)
        best = max(best, float(spreads.min()))
    return best


def counted_spread(packing: Packing, peak: float, trough: float, proven: float) -> float:
    """A spread that no assignment falls below, at least `proven`, from the numbers of bundles on
    each broker. Close where bundles are nearly equal. `peak`: usage that the fullest broker reaches
    in every assignment; `trough`: usage that the emptiest does not exceed.

    An assignment with a spread below a target leaves each broker few numbers of bundles to choose
    from. For given numbers, any group of brokers carries at least the load of the smallest bundles,
    of as many as it has, and at most that of the largest ones. The fullest broker is not below the
    mean usage of any group, the emptiest not above it.
    """
    if not len(packing.sizes) or not 2 <= packing.brokers <= _BROKERS:
        return proven
    # int64[2^brokers − 1, brokers]: 1 for the members of each group.
    groups = np.arange(1, 1 << packing.brokers)[:, None] >> np.arange(packing.brokers) & 1
    step = max(_STEP_POINTS, _STEP_PART * proven)
    for _ in range(_TARGETS):
        target = proven + step
        numbers = _numbers(packing, peak - target, trough + target, _CHOICES // len(groups))
        if numbers is None:
            step *= _BACK
            continue
        least = float(_least(packing, groups, numbers).min(initial=target))
        proven, step = max(proven, least), 2 * step
        if least < target:
            break
    return proven


def _numbers(packing: Packing, low: float, high: float, most: int) -> Ints | None:
    """int64[choices, brokers]: the numbers of bundles on each broker with which all usages can be
    between `low` and `high`; None if there are more than `most`.
    """
    needs = packing.capacity * (low - packing.fixed) - packing.slack
    room = packing.capacity * (high - packing.fixed) + packing.slack
    fewest = np.where(needs > 0, np.searchsorted(packing.sums, needs), 0)
    largest = np.searchsorted(packing.smallest, room, side="right") - 1
    choices, left = np.zeros((1, 0), dtype=np.int64), np.array([len(packing.sizes)])
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
    fullest = (idle + packing.smallest[together]) / capacity
    emptiest = (idle + packing.sums[together]) / capacity
    return np.asarray(fullest.max(axis=1) - emptiest.min(axis=1))


def _tops(packing: Packing) -> Ints:
    """Numbers of largest bundles that `lowest_peak` counts: all, or in a large cluster one more
    than a multiple of the brokers.
    """
    bundles, count = len(packing.sizes), packing.brokers
    if bundles * count <= _COMPARISONS:
        return np.arange(1, bundles + 1)
    layers = _some(bundles // count + 1, _COMPARISONS // count)
    return np.unique(np.minimum(layers * count + 1, bundles))


def _some(count: int, most: int) -> Ints:
    """0 … count − 1, or about `most` of them: 0, 1, and then ever fewer."""
    if count <= most:
        return np.arange(count)
    # Their last bit depends on the processor: one just below a whole number counts as it.
    chosen = (np.geomspace(1, count - 1, max(8, most)) * (1 + 1e-12)).astype(np.int64)
    return np.unique(np.append(chosen, 0))


def _last_failing(
    fits: Callable[[float], bool], usage: float, fitting: float, comparisons: int
) -> float:
    """`usage` if it fits; else the failing end of a bracket between it and `fitting`."""
    if fits(usage):
        return usage
    failing = usage
    for _ in range(_HALVINGS if comparisons <= _COMPARISONS else _FEW_HALVINGS):
        middle = (fitting + failing) / 2
        if fits(middle):
            fitting = middle
        else:
            failing = middle
    return failing

"""Finds brokers for bundles so that no broker carries more than its room at any step, or proves
that there are none.

Heuristics first: the largest bundle goes to the broker that ends emptiest; then moves and swaps
relieve the fullest broker. Where these fail, few bundles are searched completely, the largest
first, by branch and bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from strategies.bundles import Bools, Floats, Ints
from strategies.shedding.steady.whole_bundle_bounds import Packing, lowest_peak

#: Part of the room by which sums may be wrong.
ROUNDING = 1e-9
#: Exchanges per bundle; brokers at each end between which they are tried.
_EXCHANGES, _ENDS = 3, 6
#: Bundles that are searched completely, steps of this search, and heaviest steps that are bounded.
_BUNDLES, _NODES, _HEAVIEST = 48, 20_000, 8


@dataclass(frozen=True, slots=True, eq=False)
class PackingProblem:
    """`sizes`: float64[bundles, steps], load; `start`: float64[brokers, steps], load that is there;
    `room`: float64[brokers], all load that each may carry; `takers`: bundle, int64[bundles] with
    the brokers so far (-1 for none) → bool[brokers]; `compares`: it depends on the brokers so far.
    """

    sizes: Floats
    start: Floats
    room: Floats
    takers: Callable[[int, Ints], Bools]
    compares: bool = False

    def fill(self, owners: Ints) -> Floats:
        """float64[brokers]: the highest load of each, as part of its room."""
        load = self.start.copy()
        np.add.at(load, owners[owners >= 0], self.sizes[owners >= 0])
        return np.asarray(load.max(axis=1) / self.room)


def is_impossible(sizes: Floats, free: Floats, divisible: Bools) -> bool:
    """True if no assignment of bundles fits, whatever is allowed. `free`: float64[brokers, steps];
    `divisible`: bool[bundles], any part of these may be anywhere.
    """
    free, total = np.maximum(free, np.zeros(sizes.shape[1])), sizes.sum(axis=0)
    for step in np.argsort(free.sum(axis=0) - total, kind="stable")[:_HEAVIEST].tolist():
        room = free[free[:, step] > 0, step]
        if total[step] > float(room.sum()) * (1 + ROUNDING):
            return True
        if len(room):
            loose = float(sizes[divisible, step].sum())
            packing = Packing.of(sizes[~divisible, step], np.zeros(len(room)), room, loose)
            if lowest_peak(packing) > 1 + ROUNDING:
                return True
    return False


def pack(
    demand: PackingProblem, nodes: int = _NODES, start: Ints | None = None
) -> tuple[Ints | None, bool]:
    """Brokers for all bundles, int64[bundles]; without them, whether it is proven that there are
    none. `start`: where bundles stay if they can, -1 for none.
    """
    sizes, free = demand.sizes, demand.room[:, None] - demand.start
    whole, none = np.zeros(len(sizes), dtype=bool), np.full(len(sizes), -1)
    if bool((free < -ROUNDING * demand.room[:, None]).any()):
        return None, True
    allowed = np.array(
        [np.ones(len(free), bool), *(demand.takers(at, none) for at in range(len(sizes)))]
    )
    for some in np.unique(allowed, axis=0):
        rows = (allowed[1:] <= some).all(axis=1)
        if is_impossible(sizes[rows], free[some], whole[rows]):
            return None, True
    owners = largest_first(demand, none if start is None else start)
    if owners is not None:
        exchange(demand, owners, 1 + ROUNDING)
        if demand.fill(owners).max() <= 1 + ROUNDING:
            return owners, False
    if demand.compares or len(sizes) > _BUNDLES:
        return None, False
    steps = np.unique(np.concatenate([sizes, free]), axis=1)
    order = np.argsort(-sizes.max(axis=1), kind="stable").tolist()
    free = steps[len(sizes) :] + ROUNDING * float(demand.room.max())
    left = [nodes]
    found = _search(steps[: len(sizes)], free, allowed[1:], order, left)
    if found is None:
        return None, left[0] >= 0
    owners = np.full(len(sizes), -1)
    owners[order] = found
    return owners, False


def largest_first(demand: PackingProblem, start: Ints) -> Ints | None:
    """Each bundle without a broker on the one that ends emptiest. None if none is allowed for one.
    `start`: int64[bundles], brokers, -1 for none.
    """
    load, owners = demand.start.copy(), start.copy()
    np.add.at(load, owners[owners >= 0], demand.sizes[owners >= 0])
    order = np.argsort(-demand.sizes.max(axis=1), kind="stable")
    for at in order[owners[order] < 0].tolist():
        rows = np.flatnonzero(demand.takers(at, owners))
        if not len(rows):
            return None
        fill = (load[rows] + demand.sizes[at]).max(axis=1) / demand.room[rows]
        owners[at] = rows[int(fill.argmin())]
        load[owners[at]] += demand.sizes[at]
    return owners


def exchange(demand: PackingProblem, owners: Ints, enough: float) -> None:
    """Moves and swaps bundles between fuller and emptier brokers, so that the fuller of two is less
    full, until all are `enough` (part of their room) or no exchange helps.
    """
    for _ in range(_EXCHANGES * len(owners)):
        fill = demand.fill(owners)
        order = np.argsort(fill, kind="stable").tolist()
        if len(order) < 2 or fill[order[-1]] <= enough:
            return
        pairs = chain(
            ((order[-1], low) for low in order[: min(_ENDS, len(order) - 1)]),
            ((high, order[0]) for high in order[:0:-1][1:_ENDS]),
        )
        found = (_best(demand, owners, high, low, float(fill[high])) for high, low in pairs)
        best = next((one for one in found if one is not None), None)
        if best is None:
            return
        for bundle, row in best:
            owners[bundle] = row


def _best(
    demand: PackingProblem, owners: Ints, high: int, low: int, before: float
) -> list[tuple[int, int]] | None:
    """The bundles, and their new brokers, whose exchange leaves two brokers the least full."""

    def free(start: int, end: int) -> list[int]:
        held = np.flatnonzero(owners == start).tolist()
        return [-1, *(one for one in held if demand.takers(one, owners)[end])]

    mine, theirs = free(high, low), free(low, high)
    if demand.compares:
        theirs = [-1]
    sizes = np.concatenate([demand.sizes, np.zeros((1, demand.sizes.shape[1]))])
    moved = sizes[mine][:, None] - sizes[theirs][None, :]
    loads = [demand.start[row] + demand.sizes[owners == row].sum(axis=0) for row in (high, low)]
    after = np.maximum(
        (loads[0] - moved).max(axis=2) / demand.room[high],
        (loads[1] + moved).max(axis=2) / demand.room[low],
    )
    one, other = divmod(int(after.argmin()), len(theirs))
    if after[one, other] >= before * (1 - ROUNDING):
        return None
    return [pair for pair in ((mine[one], low), (theirs[other], high)) if pair[0] >= 0]


def _search(
    sizes: Floats, free: Floats, allowed: Bools, left: list[int], nodes: list[int]
) -> list[int] | None:
    """The brokers of the bundles that are left, in their order; None if there are none, or the
    steps that are left, `nodes`, do not suffice. `free`: float64[brokers, steps].
    """
    nodes[0] -= 1
    if not left or nodes[0] < 0:
        return None if left else []
    useful = (free >= sizes[left].min(axis=0)).all(axis=1)
    if bool((sizes[left].sum(axis=0) > np.where(useful[:, None], free, 0.0).sum(axis=0)).any()):
        return None
    able, tried = allowed[left[0]] & (free >= sizes[left[0]]).all(axis=1), set[bytes]()
    for row in sorted(np.flatnonzero(able).tolist(), key=lambda row: float(free[row].min())):
        alike = free[row].tobytes() + allowed[left, row].tobytes()
        if alike not in tried:
            tried.add(alike)
            after = free.copy()
            after[row] -= sizes[left[0]]
            rest = _search(sizes, after, allowed, left[1:], nodes)
            if rest is not None:
                return [row, *rest]
    return None

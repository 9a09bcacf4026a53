"""The lowest spread of usages that whole bundles can reach, by a solver that shares nothing with
the bounds it checks: a local search, and scipy's mixed-integer program for what is left to prove.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from strategies.bundles import Floats, Ints

#: Points up to which two spreads are the same.
TOLERANCE = 0.01
#: Bundles of two brokers that are split between them in the best of all ways.
_SPLIT = 13
_STEPS = 300


@dataclass(frozen=True)
class Exact:
    """Points. `reached`: the lowest spread that was found; `proven`: it is the lowest of all, but
    for `TOLERANCE`.
    """

    reached: float
    proven: bool


@dataclass(frozen=True, eq=False)
class Problem:
    """`sizes`: float64[bundles], load; `fixed`: float64[n], points; `capacity`: float64[n], load
    per point.
    """

    sizes: Floats
    fixed: Floats
    capacity: Floats

    def usage(self, owner: Ints) -> Floats:
        """float64[n], points. `owner`: int64[bundles], brokers."""
        load = np.bincount(owner, self.sizes, minlength=len(self.fixed))
        return np.asarray(self.fixed + load / self.capacity)


def exact_spread(problem: Problem, nodes: int = 2000, starts: int = 4) -> Exact:
    """The lowest spread. `nodes`: of the solver's tree, at most; not a time, so that results do not
    depend on how busy the machine is.
    """
    reached = min(
        _local_search(problem, 0.15 * start, np.random.default_rng(start))
        for start in range(starts)
    )
    if reached <= TOLERANCE:
        return Exact(reached, proven=True)
    return _solved(problem, reached, nodes)


def _local_search(problem: Problem, noise: float, random: np.random.Generator) -> float:
    """Places the largest bundle first, with some noise in the order, and then splits the bundles of
    pairs of brokers again while this helps.
    """
    sizes, usage = problem.sizes, problem.fixed.astype(np.float64)
    owner = np.zeros(len(sizes), dtype=np.int64)
    for row in np.argsort(-sizes * (1 + noise * random.random(len(sizes)))).tolist():
        owner[row] = (usage + sizes[row] / problem.capacity).argmin()
        usage[owner[row]] += sizes[row] / problem.capacity[owner[row]]
    for _ in range(_STEPS):
        better = (
            _split_again(problem, owner, pair, random) for pair in _pairs(problem.usage(owner))
        )
        found = next((one for one in better if one is not None), None)
        if found is None:
            break
        owner = found
    return float(np.ptp(problem.usage(owner)))


def _pairs(usage: Floats) -> Iterator[tuple[int, int]]:
    """Pairs of brokers, those at the ends first."""
    order = np.argsort(usage).tolist()
    places = [(high, low) for high in range(1, len(order)) for low in range(high)]
    for high, low in sorted(places, key=lambda pair: pair[1] - pair[0]):
        yield order[high], order[low]


def _split_again(
    problem: Problem, owner: Ints, pair: tuple[int, int], random: np.random.Generator
) -> Ints | None:
    """The owners after the best split of the pair's bundles; None if it is the present one."""
    sizes, capacity, usage = problem.sizes, problem.capacity, problem.usage(owner)
    rows = np.flatnonzero(np.isin(owner, pair))
    rows = np.sort(random.permutation(rows)[:_SPLIT])
    one, other = pair
    loads = np.zeros(1)
    for size in sizes[rows].tolist():
        loads = np.concatenate([loads, loads + size])
    mine = sizes[rows[owner[rows] == one]].sum()
    first = usage[one] + (loads - mine) / capacity[one]
    second = usage[other] + (mine - loads) / capacity[other]
    rest = np.delete(usage, pair)
    highest = np.maximum(np.maximum(first, second), rest.max(initial=-np.inf))
    lowest = np.minimum(np.minimum(first, second), rest.min(initial=np.inf))
    cost = highest - lowest + 0.001 * np.abs(first - second)
    best = int(cost.argmin())
    if cost[best] >= np.ptp(usage) + 0.001 * abs(usage[one] - usage[other]) - 1e-9:
        return None
    after = owner.copy()
    after[rows] = np.where(best >> np.arange(len(rows)) & 1, one, other)
    return after


def _solved(problem: Problem, reached: float, nodes: int) -> Exact:
    """Columns: number of bundles of each size on each broker, then lowest and highest usage. Only
    spreads below the one reached by more than the tolerance are looked for.
    """
    from scipy.optimize import Bounds, milp  # here, because it takes most of a second

    kinds, numbers = np.unique(problem.sizes, return_counts=True)
    fixed, capacity = problem.fixed, problem.capacity
    count, columns = len(fixed), len(fixed) * len(kinds) + 2
    cost = np.zeros(columns)
    cost[-2:] = -1, 1
    most = np.concatenate([np.tile(numbers, count), [np.inf, np.inf]])
    answer = milp(
        cost,
        integrality=np.append(np.ones(columns - 2), [0, 0]),
        bounds=Bounds(np.append(np.zeros(columns - 2), [-np.inf, -np.inf]), most),
        constraints=_constraints(kinds, numbers, fixed, capacity, reached - TOLERANCE),
        options={"node_limit": nodes, "mip_rel_gap": 0.0},
    )
    if answer.status == 2:
        return Exact(reached, proven=True)
    if answer.x is not None:
        on_brokers = np.rint(answer.x[:-2]).reshape(count, len(kinds))
        reached = min(reached, float(np.ptp(fixed + on_brokers @ kinds / capacity)))
    return Exact(reached, proven=answer.status == 0)


def _constraints(
    kinds: Floats, numbers: Ints, fixed: Floats, capacity: Floats, most: float
) -> list[Any]:
    """Usages are between the lowest and the highest one; every bundle is placed; the spread is at
    most `most`; of equal brokers, the first ones carry more.
    """
    from scipy.optimize import LinearConstraint
    from scipy.sparse import block_diag, csr_matrix, eye, hstack, vstack

    count = len(fixed)
    usage = block_diag([kinds[None, :] / one for one in capacity], format="csr")
    lowest, highest = np.tile([1.0, 0.0], (count, 1)), np.tile([0.0, 1.0], (count, 1))
    every = hstack([eye(len(kinds))] * count + [csr_matrix((len(kinds), 2))])
    spread = csr_matrix(([-1.0, 1.0], ([0, 0], [usage.shape[1], usage.shape[1] + 1])))
    found = [
        LinearConstraint(hstack([usage, csr_matrix(-lowest)]).tocsr(), -fixed, np.inf),
        LinearConstraint(hstack([usage, csr_matrix(-highest)]).tocsr(), -np.inf, -fixed),
        LinearConstraint(every.tocsr(), numbers, numbers),
        LinearConstraint(spread.tocsr(), -np.inf, most),
    ]
    order = np.lexsort((fixed, capacity)).tolist()
    equal = [
        usage[one] - usage[other]
        for one, other in pairwise(order)
        if (fixed[one], capacity[one]) == (fixed[other], capacity[other])
    ]
    if equal:
        rows = hstack([vstack(equal), csr_matrix((len(equal), 2))])
        found.append(LinearConstraint(rows.tocsr(), 0, np.inf))
    return found

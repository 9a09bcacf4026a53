"""How many brokers a cluster needs so that one more may die, and which of its brokers may go. A yes
is a plan that was found: the brokers of all bundles, and for each broker that may die, those of its
bundles then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.advise.packing import is_impossible, pack
from pulsar_rebalancer.lab.advise.sized_cluster import SizedCluster
from strategies.bundles import Floats, Ints

#: Sets of brokers that are tried where policies make them differ, brokers that are spared in turn,
#: numbers of brokers that are tried without proof, and the largest one, as factor of the present
#: one.
_SETS, _SPARED, _NUMBERS, _FURTHEST = 40, 12, 6, 8
#: Steps of a complete search for the bundles of a broker that dies.
_NODES = 3_000


#: `brokers`: names of the brokers in use; `owners`: bundle → broker; `deaths`: broker → bundle that
#: moves after its death → broker.
Plan = dict[str, Any]


def fewest(
    cluster: SizedCluster, at_most: float, factor: float = 1.0, least: int = 2
) -> dict[str, Any]:
    """The fewest of the cluster's brokers, or with more like them, that carry its load times
    `factor` with one of them dead: at least `least`, which a smaller load needs; `found` of them
    have this `plan`, None if no number that was tried has. `too_large`: a bundle is too large for
    most brokers.
    """
    present, cluster = len(cluster.brokers), replace(cluster, sizes=cluster.sizes * factor)
    # If the most powerful broker dies, the next one must carry the largest bundle.
    room, open_ = np.sort(_room(cluster.grown(2), at_most)), list[int]()
    too_large = bool((cluster.sizes[~cluster.divisible] > room[-2]).any())
    for count in range(least, least if too_large else _FURTHEST * (present + 2)):
        wide, proven = cluster.grown(max(0, count - present)), True
        order = np.argsort(-_room(wide, at_most), kind="stable").tolist()
        for rows in islice(combinations(order, count), _SETS if cluster.has_policies else 1):
            plan, none = plan_on(wide, rows, at_most)
            proven = proven and none
            if plan is not None:
                least = min([*open_, count])
                return {"least": least, "found": count, "too_large": False, "plan": plan}
        open_ += [] if proven else [count]
        if len(open_) == _NUMBERS:
            break
    # Where no number can be enough, more brokers do not help.
    least = min(open_, default=max(least, present))
    return {"least": least, "found": None, "too_large": too_large, "plan": None}


def _room(cluster: SizedCluster, at_most: float) -> Floats:
    return at_most * cluster.power - cluster.idle


def plan_on(cluster: SizedCluster, rows: Sequence[int], at_most: float) -> tuple[Plan | None, bool]:
    """A plan for all bundles on these brokers; without one, whether it is proven that there is
    none. If possible, bundles on them stay.
    """
    room = np.sort(_room(cluster, at_most)[list(rows)])
    if len(rows) < 2 or is_impossible(cluster.sizes, room[:-1, None], cluster.divisible):
        return None, True
    for owners, none in _placements(cluster, rows, at_most):
        if owners is None:
            if none:
                return None, not cluster.divisible.any()
            continue
        deaths = _deaths(cluster, rows, owners, at_most)
        if len(deaths) == len(rows):
            names = [cluster.brokers[row] for row in rows]
            all_ = _named(cluster, owners, np.arange(len(owners)))
            return {"brokers": names, "owners": all_, "deaths": deaths}, False
    return None, False


def _deaths(
    cluster: SizedCluster, rows: Sequence[int], owners: Ints, at_most: float
) -> dict[str, dict[str, str]]:
    """Broker → the bundles that move after its death, and where; up to the first without places."""
    deaths = {}
    for dead in rows:
        kept, left = np.where(owners == dead, -1, owners), [row for row in rows if row != dead]
        after, _ = _placed(cluster, left, kept, at_most, nodes=_NODES)
        if after is None:
            break
        deaths[cluster.brokers[dead]] = _named(cluster, after, np.flatnonzero(kept < 0))
    return deaths


def _named(cluster: SizedCluster, owners: Ints, bundles: Ints) -> dict[str, str]:
    return {cluster.names[at]: cluster.brokers[owners[at]] for at in bundles.tolist()}


def _placements(
    cluster: SizedCluster, rows: Sequence[int], at_most: float
) -> Iterator[tuple[Ints | None, bool]]:
    """Placements to try: what stays, all brokers, and one spared for the death of another. Where
    the others cannot carry all, no plan exists.
    """
    every, nowhere = np.arange(len(cluster.names)), np.full(len(cluster.names), -1)
    demand, place = (
        cluster.demand(every, rows, nowhere, at_most),
        {r: at for at, r in enumerate(rows)},
    )
    start = np.array([place.get(row, -1) for row in cluster.owners.tolist()], dtype=np.int64)
    for at in np.flatnonzero(start >= 0).tolist():
        start[at] = start[at] if demand.takers(at, nowhere)[start[at]] else -1
    found, none = pack(demand, 0, start)
    yield None if found is None else np.array(rows)[found], none
    yield _placed(cluster, rows, nowhere, at_most)
    # Without policies, equal brokers are spared alike.
    rooms = sorted((-float(_room(cluster, at_most)[row]), row) for row in rows)
    spares = dict(rooms if not cluster.has_policies else zip(rows, rows, strict=True))
    for spare in islice(spares.values(), _SPARED):
        owners, none = _placed(cluster, [row for row in rows if row != spare], nowhere, at_most)
        if owners is not None and cluster.has_policies:
            # While the spared broker lives, policies may allow fewer brokers.
            owners, _ = _placed(cluster, rows, nowhere, at_most, spare=spare)
        yield owners, none


def _placed(
    cluster: SizedCluster,
    rows: Sequence[int],
    kept: Ints,
    at_most: float,
    *,
    nodes: int | None = None,
    spare: int | None = None,
) -> tuple[Ints | None, bool]:
    """The brokers of all bundles: `kept`, and for those without one, some of these except for
    `spare`; else whether it is proven that there are none.
    """
    homeless = np.flatnonzero(kept < 0)
    demand = cluster.demand(homeless, rows, kept, at_most)
    if spare is not None:
        demand.start[rows.index(spare)] = demand.room[rows.index(spare)]
    found, none = pack(demand) if nodes is None else pack(demand, nodes)
    if found is None:
        return None, none
    owners = kept.copy()
    owners[homeless] = np.array(rows)[found]
    return owners, False


def departure(cluster: SizedCluster, broker: str, at_most: float) -> dict[str, Any]:
    """`may_go`: `yes`, also with the margin; `tight`, under the recorded load only; `no`, proven;
    `not-found`; its `plan`. `peak`: highest usage (fraction) now; `dies`: that of the others if it
    dies at the peak and only its bundles move, None if these do not fit below the limit.
    """
    at = cluster.brokers.index(broker)
    rows, mine = [row for row in range(len(cluster.brokers)) if row != at], cluster.owners == at
    plan, none = plan_on(cluster, rows, at_most)
    careful = cluster.with_margin, rows, at_most - cluster.unsure
    safe = None if plan is None else plan_on(*careful)[0]
    kept = np.where(mine, -1, cluster.owners)
    after = _placed(cluster, rows, kept, at_most, nodes=_NODES)[0] if rows else None
    return {
        "broker": broker,
        "may_go": ("yes" if safe else "tight") if plan else "no" if none else "not-found",
        "plan": safe or plan,
        "bundles": int(mine.sum()),
        "power": float(cluster.power[at]),
        "peak": float(usage_of(cluster, cluster.owners)[at]),
        "dies": None if after is None else float(usage_of(cluster, after)[rows].max()),
    }


def together(
    cluster: SizedCluster, at_most: float, departures: Sequence[dict[str, Any]]
) -> tuple[list[str], Plan | None]:
    """Those of the brokers with a yes that may all go, the earlier ones first, and a plan without
    them.
    """
    gone, plan = list[str](), None
    for broker in (one["broker"] for one in departures if one["may_go"] == "yes"):
        rows = [row for row, one in enumerate(cluster.brokers) if one not in (*gone, broker)]
        found, _ = plan_on(cluster, rows, at_most)
        if found is not None:
            gone, plan = [*gone, broker], found
    return gone, plan


def usage_of(cluster: SizedCluster, owners: Ints) -> Floats:
    """float64[brokers]: highest usage (fraction) of each with these bundles."""
    none = np.zeros(0, dtype=np.int64)
    return cluster.demand(none, range(len(cluster.brokers)), owners, 1.0).fill(none)

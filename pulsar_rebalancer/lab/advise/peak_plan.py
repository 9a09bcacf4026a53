"""The moves after which no broker is above a usage at the peak of the recorded days."""

from shlex import quote
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.advise.packing import ROUNDING, PackingProblem, pack
from pulsar_rebalancer.lab.advise.sized_cluster import SizedCluster
from strategies.bundles import Ints

_REASON = "for the peak"
#: Part of the room that is full, and the usage (fraction) from which on no plan is looked for.
_FULL, _HIGHEST = 1 + ROUNDING, 2.0


def peak_plan(cluster: SizedCluster, at_most: float) -> dict[str, Any]:
    """The fewest moves that were found, from the present owners, after which no broker is above a
    `limit` at any recorded step: at least `least` are needed. The limit is `at_most` (fraction),
    and one point more as long as no plan was found. `before`, `after`: highest usage (fraction).
    Bundles that no report lists, or no broker serves, stay.
    """
    listed = (cluster.owners >= 0) & ~cluster.divisible
    movable, kept = np.flatnonzero(listed), np.where(listed, -1, cluster.owners)
    demand = cluster.demand(movable, range(len(cluster.brokers)), kept, at_most)
    home = cluster.owners[movable]
    placed, _ = pack(demand, 0, _leaving(demand, home))
    if placed is None and demand.fill(home).max() > _FULL and at_most < _HIGHEST:
        return peak_plan(cluster, round(at_most + 0.01, 4))
    owners = home if placed is None else placed
    usage = at_most * np.stack([demand.fill(home), demand.fill(owners)], axis=1)
    moves = [
        (cluster.names[movable[at]], cluster.brokers[home[at]], cluster.brokers[owners[at]])
        for at in np.flatnonzero(owners != home).tolist()
    ]
    return {
        "before": float(usage[:, 0].max()),
        "after": float(usage[:, 1].max()),
        "limit": at_most,
        "least": _least(demand, home),
        "reason": _REASON,
        "moves": [{"bundle": name, "from": source, "to": to} for name, source, to in moves],
        "brokers": [
            {"broker": name, "before": before, "after": after}
            for name, (before, after) in zip(cluster.brokers, usage.tolist(), strict=True)
        ],
        "commands": [
            f"rebalancer move {quote(name)} --to {quote(to)} --reason '{_REASON}'"
            for name, _, to in moves
        ],
    }


def _leaving(demand: PackingProblem, home: Ints) -> Ints:
    """The owners without bundles, -1, that bring each broker to its room: the smallest that is
    enough alone, otherwise the largest.
    """
    owners = home.copy()
    for row, room in enumerate(demand.room * _FULL):
        while demand.fill(owners)[row] > _FULL and len(mine := np.flatnonzero(owners == row)):
            sizes = demand.sizes[mine]
            left = (demand.start[row] + sizes.sum(axis=0) - sizes).max(axis=1)
            owners[mine[np.where(left <= room, -left, left).argmin()]] = -1
    return owners


def _least(demand: PackingProblem, home: Ints) -> int:
    """At each broker's fullest step, as many of its largest bundles as bring it to its room."""
    count = 0
    for row, room in enumerate(demand.room * _FULL):
        sizes = -np.sort(-demand.sizes[home == row], axis=0)
        gone = np.insert(sizes.cumsum(axis=0), 0, 0.0, axis=0)
        count += int((demand.start[row] + gone[-1] - gone > room).sum(axis=0).max())
    return count

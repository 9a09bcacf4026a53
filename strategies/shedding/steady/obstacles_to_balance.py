"""Why moving bundles cannot even out a cluster, with the figure and the advice."""

from collections.abc import Callable
from math import ceil

import numpy as np

from strategies.cluster.model import Skip
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.shedding.steady.planned_cluster import MovePlan, PlannedCluster, spread_of

#: Mean usage (points) from which on a cluster is full, and the one that new brokers should lead to.
FULL, COMFORTABLE = 85.0, 70.0


def cluster_full(cluster: PlannedCluster) -> list[Skip]:
    """The skip of a cluster that has too little capacity however its bundles are spread."""
    brokers = cluster.brokers
    load, capacity = float((brokers.usage * brokers.capacity).sum()), float(brokers.capacity.sum())
    mean = load / capacity
    if mean < FULL:
        return []
    missing = ceil(load / COMFORTABLE / float(np.median(brokers.capacity)) - len(brokers.usage))
    text = (
        f"the brokers are {mean:.0f} % busy on average, so moving bundles brings little: add "
        f"{counted(max(1, missing), 'broker')} to reach {COMFORTABLE:.0f} %"
    )
    return [
        Skip("cluster", (cluster.view.cluster,), "cluster-full", text, None, {"mean_percent": mean})
    ]


def why_not_even(
    cluster: PlannedCluster, plan: MovePlan, width: float, bound: Callable[[], float]
) -> list[Skip]:
    """Skips that say why the plan leaves a spread above the band; empty where it does not. `bound`:
    lower bound of the spread that whole bundles can reach, in points.
    """
    if plan.spread <= width:
        return []
    one = _one_broker(cluster, plan, width)
    if one is not None:
        return [one]
    best_spread = bound()
    left = f"{plan.spread:.1f} points between the brokers remain"
    if best_spread > width:
        text = (
            f"{left}: no assignment of whole bundles has a spread below {best_spread:.1f}; split "
            "large bundles, or give their topics more partitions"
        )
        return [_cluster(cluster, "coarse-bundles", text, plan, best_spread)]
    # A bundle that may not return yet is refused as well.
    if plan.refused and not cluster.left:
        text = (
            f"{left}: policies or filters keep bundles from the brokers with room; widen the "
            "isolation policy, or check filters.*"
        )
        return [_cluster(cluster, "policies-hold", text, plan, best_spread)]
    text = (
        f"{left}: every further move would gain little, compared with what it moves or with the "
        "other moves, or its bundle may not move now"
    )
    return [_cluster(cluster, "not-worth-it", text, plan, best_spread)]


def _one_broker(cluster: PlannedCluster, plan: MovePlan, width: float) -> Skip | None:
    """The skip of the fullest broker if it stands out without all bundles but its largest: because
    of load that belongs to no bundle, or of a bundle that makes any broker stand out. Bundles that
    rest count as those that may move.
    """
    row, moved = int(plan.after.argmax()), {one.bundle for one in plan.moves}
    pieces, usage = cluster.brokers.pieces(row), float(cluster.brokers.usage[row])
    mean = float(np.delete(plan.after, row).mean())
    largest = max(
        (at for at in np.flatnonzero(~pieces.bound).tolist() if pieces.names[at] not in moved),
        key=lambda at: (float(pieces.sizes[at]), pieces.names[at]),
        default=None,
    )
    size = 0.0 if largest is None else float(pieces.sizes[largest])
    fixed = _without_bundles(cluster, row)
    share = size / float(cluster.brokers.capacity[row])
    if fixed + share - mean <= width:
        return None
    evidence = {"bundle_percent": share, "mean_percent": mean}
    compared = f"the other brokers are at {mean:.1f} % on average"
    if largest is None or fixed - mean > width:
        text = (
            f"{fixed:.1f} of its {usage:.1f} % belong to no bundle that may move, and {compared}: "
            "look for other processes on the machine, and for what keeps its bundles"
        )
        names = (cluster.names[row],)
        return Skip("broker", names, "load-without-bundles", text, None, evidence)
    if any(
        _without_bundles(cluster, other) + size / float(capacity) - mean <= width
        for other, capacity in enumerate(cluster.brokers.capacity)
    ):
        return None
    text = (
        f"it makes up {share:.1f} of the {usage:.1f} % of {cluster.names[row]}, and {compared}: no "
        "broker can carry it without standing out; split it, give its topics more partitions, or "
        "limit their dispatch rate"
    )
    names = (pieces.names[largest],)
    return Skip("bundle", names, "bundle-too-large", text, cluster.names[row], evidence)


def _without_bundles(cluster: PlannedCluster, row: int) -> float:
    """Usage (points) of a broker without the bundles that may leave it some time."""
    pieces = cluster.brokers.pieces(row)
    # Sorted, because the order of the bundles must not change a sum.
    free = float(np.sort(pieces.sizes[~pieces.bound]).sum()) + cluster.unlisted(row)
    return max(0.0, float(cluster.brokers.usage[row]) - free / float(cluster.brokers.capacity[row]))


def _cluster(
    cluster: PlannedCluster, code: str, text: str, plan: MovePlan, best_spread: float
) -> Skip:
    return Skip(
        "cluster",
        (cluster.view.cluster,),
        code,
        text,
        None,
        {"spread_points": spread_of(plan.after), "best_spread_points": best_spread},
    )

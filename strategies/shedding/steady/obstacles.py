"""Why moving bundles cannot even out a cluster, with the figure and the advice."""

from __future__ import annotations

from math import ceil

import numpy as np

from strategies.model import Skip
from strategies.shedding.steady.cluster import PlannedCluster
from strategies.shedding.steady.plan import MovePlan, spread_of

#: Mean usage (points) from which on a cluster is full, and the one that new brokers should lead to.
FULL, COMFORTABLE = 85.0, 70.0
#: Codes of the skips that say what helps where moves cannot.
ADVICE = frozenset({"cluster-full", "bundle-too-large", "coarse-bundles", "policies-hold"})


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
        f"{max(1, missing)} brokers to reach {COMFORTABLE:.0f} %"
    )
    return [
        Skip("cluster", (cluster.view.cluster,), "cluster-full", text, None, {"mean_percent": mean})
    ]


def why_not_even(
    cluster: PlannedCluster, plan: MovePlan, width: float, best_spread: float
) -> list[Skip]:
    """Skips that say why the plan leaves a spread above the band; empty where it does not."""
    if plan.spread <= width:
        return []
    giant = _giant(cluster, plan, width)
    if giant is not None:
        return [giant]
    left = f"{plan.spread:.1f} points between the brokers remain"
    if best_spread > width:
        text = (
            f"{left}: bundles are too large for less than {best_spread:.1f} points; split them, "
            "or give their topics more partitions"
        )
        return [_cluster(cluster, "coarse-bundles", text, plan, best_spread)]
    if plan.refused:
        text = (
            f"{left}: policies or filters keep bundles from the brokers with room; widen the "
            "isolation policy, or check filters.*"
        )
        return [_cluster(cluster, "policies-hold", text, plan, best_spread)]
    text = (
        f"{left}: every further move would gain less than half of what it moves, or its bundle "
        "may not move now"
    )
    return [_cluster(cluster, "not-worth-it", text, plan, best_spread)]


def _giant(cluster: PlannedCluster, plan: MovePlan, width: float) -> Skip | None:
    """The skip of the largest bundle of the fullest broker, if it alone makes the broker fuller
    than the mean of the others.
    """
    row, brokers, names = int(plan.after.argmax()), cluster.brokers, cluster.names
    pieces = brokers.pieces(row)
    if not len(pieces.sizes):
        return None
    at = int(pieces.sizes.argmax())
    share = float(pieces.sizes[at] / brokers.capacity[row])
    others = float(pieces.sizes[pieces.movable].sum() / brokers.capacity[row]) - share
    mean = float(np.delete(plan.after, row).mean())
    if float(plan.after[row]) - max(0.0, others) - mean <= width:
        return None
    bundle = pieces.names[at]
    text = (
        f"it makes up {share:.1f} of the {float(plan.after[row]):.1f} % of {names[row]}, and the "
        f"other brokers are at {mean:.1f} % on average: no broker can carry it without standing "
        "out; split it, give its topics more partitions, or limit their dispatch rate"
    )
    return Skip(
        "bundle",
        (bundle,),
        "bundle-too-large",
        text,
        names[row],
        {"bundle_percent": share, "mean_percent": mean},
    )


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

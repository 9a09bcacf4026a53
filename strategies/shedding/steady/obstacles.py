"""Obstacles of a plan: averages that refute it, and why moving bundles cannot even out a cluster,
with the figure and the advice.

Where load comes and goes, the newest figures say little about the next hours: a plan must even out
what bundles carry on average as well.
"""

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import Skip
from strategies.figures.counts_and_ages import counted
from strategies.shedding.steady.lasting_gaps import LoadGap
from strategies.shedding.steady.load_history import Episode
from strategies.shedding.steady.move_plan import TINY, MovePlan, spread_of
from strategies.shedding.steady.planned_cluster import PlannedCluster

#: Mean usage (points) from which on a cluster is full, and the one that new brokers should lead to.
FULL, COMFORTABLE = 85.0, 70.0
#: Load rises, or falls, where brokers carry more, or less, than their bundles do on average, by
#: this part of all load.
CHANGED = 0.05
#: How long that is remembered.
REMEMBERED_MS = 14_400_000
#: Samples of an average that can prove anything about load that comes and goes; with fewer than the
#: second number, such load looks like load that goes to another broker once.
ENOUGH, YOUNG = 60, 20


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


def weighed(
    cluster: PlannedCluster,
    plan: MovePlan,
    gap: LoadGap,
    episode: Episode,
    *,
    part: float,
    now_ms: int,
) -> tuple[bool, Episode]:
    """Whether averages refute the plan, because they show less than `part` of what it is to bring
    or are too young, and the episode with how load changes. They are asked where load came and
    goes, or went and comes, and where it has gone and not yet for long.
    """
    usual = {row: cluster.usual_sizes(row) for row in plan.rows}
    rises, falls = (one >= CHANGED for one in _changes(cluster, usual))
    rose, fell = now_ms < episode.rose_until_ms, now_ms < episode.fell_until_ms
    comes_and_goes = (rises and fell) or (falls and rose)
    # Both at once, and nothing else before: load went from one broker to another, and stays there.
    if rises and (comes_and_goes or not falls):
        episode = episode._replace(rose_until_ms=now_ms + REMEMBERED_MS)
    if falls and (comes_and_goes or not rises):
        episode = episode._replace(fell_until_ms=now_ms + REMEMBERED_MS)
    averaged = _averaged(cluster, plan)
    young = rises and falls and averaged < YOUNG
    went = falls and not rises and gap.test.code != "lasting-gap"
    if not (comes_and_goes or young or went):
        return False, episode
    return averaged < ENOUGH or not _is_proven(cluster, plan, usual, part), episode


def _changes(cluster: PlannedCluster, usual: Mapping[int, Floats]) -> tuple[float, float]:
    """Parts of the load of a plan's brokers that they carry more than their bundles do on average,
    and less. Of brokers, not of bundles: where figures of bundles are noisy, they add up to a
    broker's load.
    """
    now = np.array([_sum(cluster.sizes(row)) for row in usual])
    average = np.array([_sum(sizes) for sizes in usual.values()])
    total = max(float(now.sum()), TINY)
    rises, falls = (
        float(np.maximum(one, 0).sum()) / total for one in (now - average, average - now)
    )
    return rises, falls


def _is_proven(
    cluster: PlannedCluster, plan: MovePlan, usual: Mapping[int, Floats], part: float
) -> bool:
    """Whether averages show this part of what the plan cuts the spread of its brokers by."""
    brokers, involved = cluster.brokers, list(usual)
    before = brokers.usage.copy()
    for row, sizes in usual.items():
        before[row] = _usage(cluster, row, sizes)
    after = before.copy()
    for move in plan.moves:
        at = cluster.pieces(move.source).names.index(move.bundle)
        size = float(usual[move.source][at])
        after[move.source] -= size / brokers.capacity[move.source]
        after[move.destination] += size / brokers.capacity[move.destination]
    now, on_average = (
        spread_of(old[involved]) - spread_of(new[involved])
        for old, new in ((brokers.usage, plan.after), (before, after))
    )
    return on_average >= part * now


def _averaged(cluster: PlannedCluster, plan: MovePlan) -> int:
    """Samples of the youngest average of a bundle that the plan moves."""
    samples = list[int]()
    for move in plan.moves:
        table = cluster.known[move.source][0].bundles
        samples.append(int(table.long_samples[table.names.index(move.bundle)]))
    return min(samples)


def _usage(cluster: PlannedCluster, row: int, usual: Floats) -> float:
    """Usage (points) that traffic explains on a broker whose bundles carry what is usual. Not what
    the broker shows: a full one shows no more than 100.
    """
    load, now = cluster.known[row]
    more = _sum(usual) - _sum(cluster.sizes(row))
    explained = 100.0 * cluster.cost.expected(load.broker, now)
    return explained + more / float(cluster.brokers.capacity[row])


def _sum(sizes: Floats) -> float:
    """Sorted, because the order of the bundles must not change a sum."""
    return float(np.sort(sizes).sum())

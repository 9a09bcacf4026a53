"""Refuses plans where load comes and goes: the newest figures then say little about the next hours,
so a plan must even out what bundles carry on average as well.
"""

from collections.abc import Mapping

import numpy as np

from strategies.bundles import Floats
from strategies.shedding.steady.lasting_gaps import LoadGap
from strategies.shedding.steady.memory_format import Episode
from strategies.shedding.steady.planned_cluster import TINY, MovePlan, PlannedCluster, spread_of

#: Load rises, or falls, where brokers carry more, or less, than their bundles do on average, by
#: this part of all load.
CHANGED = 0.05
#: How long that is remembered.
REMEMBERED_MS = 14_400_000
#: Samples of an average that can prove anything about load that comes and goes; with fewer than the
#: second number, such load looks like load that goes to another broker once.
ENOUGH, YOUNG = 60, 20


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

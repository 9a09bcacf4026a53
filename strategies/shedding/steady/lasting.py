"""Where load comes and goes, the newest figures say little about the next hours: a plan must even
out what bundles carry on average as well.
"""

from __future__ import annotations

import numpy as np

from strategies.bundles.bundle_loads import RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT, Floats
from strategies.shedding.steady.cluster import PlannedCluster
from strategies.shedding.steady.gaps import LoadGap
from strategies.shedding.steady.load_history import LARGEST, Episode
from strategies.shedding.steady.move_plan import TINY, MovePlan, spread_of

#: Load rises, or falls, where brokers carry more, or less, than their bundles do on average, by
#: this part of all load. It comes and goes where it did both within the time that this is
#: remembered.
CHANGED = 0.05
REMEMBERED_MS = 14_400_000
#: Samples of an average that can prove anything about load that comes and goes.
ENOUGH = 60


def weighed(
    cluster: PlannedCluster,
    plan: MovePlan,
    gap: LoadGap,
    episode: Episode,
    *,
    part: float,
    now_ms: int,
) -> tuple[bool, Episode]:
    """Whether averages refute the plan, and the episode with how load changes. Averages refute it
    if they show less than `part` of what it is to bring. They are asked where load comes and goes,
    or has fallen and not yet for long.
    """
    rises, falls = _changes(cluster, plan)
    until_ms = now_ms + REMEMBERED_MS
    if rises >= CHANGED:
        episode = episode._replace(rose_until_ms=until_ms)
    if falls >= CHANGED:
        episode = episode._replace(fell_until_ms=until_ms)
    restless = now_ms < min(episode.rose_until_ms, episode.fell_until_ms)
    asked = restless or (falls >= CHANGED and gap.code != "lasting-gap")
    return asked and not _is_proven(cluster, plan, part), episode


def _changes(cluster: PlannedCluster, plan: MovePlan) -> tuple[float, float]:
    """Parts of the load of a plan's brokers that they carry more than their bundles do on average,
    and less. Of brokers, not of bundles: where figures of bundles are noisy, they add up to a
    broker's load.
    """
    load = np.array([_load(cluster, row) for row in plan.rows])
    usual = np.array([_load(cluster, row, usual=True) for row in plan.rows])
    total = max(float(load.sum()), TINY)
    rises, falls = (float(np.maximum(one, 0).sum()) / total for one in (load - usual, usual - load))
    return rises, falls


def _is_proven(cluster: PlannedCluster, plan: MovePlan, part: float) -> bool:
    """Whether averages of enough samples show this part of what the plan cuts the spread of its
    brokers by.
    """
    brokers = cluster.brokers
    involved = plan.rows
    before = brokers.usage.copy()
    for row in involved:
        before[row] = _usage(cluster, row)
    after = before.copy()
    for move in plan.moves:
        table = cluster.known[move.source][0].bundles
        at = table.names.index(move.bundle)
        if table.long_samples[at] < ENOUGH:
            return False
        size = float(_usual(cluster, move.source)[at])
        after[move.source] -= size / brokers.capacity[move.source]
        after[move.destination] += size / brokers.capacity[move.destination]
    now, on_average = (
        spread_of(old[involved]) - spread_of(new[involved])
        for old, new in ((brokers.usage, plan.after), (before, after))
    )
    return on_average >= part * now


def _usage(cluster: PlannedCluster, row: int) -> float:
    """Usage (points) that traffic explains on a broker whose bundles carry what is usual. Not what
    the broker shows: a full one shows no more than 100.
    """
    load, now = cluster.known[row]
    more = _load(cluster, row, usual=True) - _load(cluster, row)
    explained = 100.0 * cluster.cost.expected(load.broker, now)
    return explained + more / float(cluster.brokers.capacity[row])


def _load(cluster: PlannedCluster, row: int, *, usual: bool = False) -> float:
    """Load of all bundles of a broker now, or by their averages."""
    sizes = _usual(cluster, row) if usual else cluster.sizes(row)
    # Sorted, because the order of the bundles must not change a sum.
    return float(np.sort(sizes).sum())


def _usual(cluster: PlannedCluster, row: int) -> Floats:
    """float64[n]: load of the bundles of a broker by their long-term averages."""
    figures = cluster.known[row][0].bundles.long
    figures = np.where(np.isfinite(figures) & (figures > 0), np.minimum(figures, LARGEST), 0.0)
    throughput, rate = (
        figures[:, columns].sum(axis=1)
        for columns in ((THROUGHPUT_IN, THROUGHPUT_OUT), (RATE_IN, RATE_OUT))
    )
    return cluster.cost.of_all(throughput, rate)

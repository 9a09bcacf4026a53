"""The sentences of decisions and skips."""

from __future__ import annotations

from collections.abc import Sequence

from strategies.load_history import Episode
from strategies.model import BrokerLoad, Decision, Evidence, Skip
from strategies.shedding.candidates import bundles_left_alone, must_stay
from strategies.shedding.reason_texts import settling
from strategies.shedding.steady.cluster import PlannedCluster
from strategies.shedding.steady.gaps import LoadGap
from strategies.shedding.steady.move_plan import MovePlan, PlannedMove, spread_of

_MINUTE_MS = 60_000


def gap_text(gap: LoadGap) -> str:
    """`b5 is 18.4 points above b1 in each of 3 samples`"""
    return (
        f"{gap.over} is {gap.points:.1f} points above {gap.under} in each of {gap.samples} samples"
    )


def decision(move: PlannedMove, cluster: PlannedCluster, plan: MovePlan, gap: LoadGap) -> Decision:
    """A move of the plan with its reason."""
    names, brokers = cluster.names, cluster.brokers
    source, destination = names[move.source], names[move.destination]
    loses = move.size / float(brokers.capacity[move.source])
    gains = move.size / float(brokers.capacity[move.destination])
    before = spread_of(brokers.usage)
    text = (
        f"{gap_text(gap)} (at least {gap.limit:.1f}): this bundle takes {loses:.1f} points from "
        f"{source} and adds {gains:.1f} to {destination}; all {len(plan.moves)} moves bring the "
        f"spread from {before:.1f} to {plan.spread:.1f}"
    )
    evidence: Evidence = {
        "gap_points": gap.points,
        "limit_points": gap.limit,
        "samples": gap.samples,
        "source_loses_points": loses,
        "destination_gains_points": gains,
        "spread_points": before,
        "planned_spread_points": plan.spread,
    }
    exchange = f"exchange-{move.exchange}" if move.exchange else None
    return Decision(move.bundle, source, destination, gap.code, text, evidence, exchange)


def left_alone(cluster: PlannedCluster, plan: MovePlan, live: Sequence[BrokerLoad]) -> list[Skip]:
    """Skips of the live brokers, and of the bundles of sources, that the plan does not need."""
    sources = {one.source for one in plan.moves}
    involved = {cluster.names[row] for row in sources | {one.destination for one in plan.moves}}
    waiting = [load.broker for load in live if load.settling]
    spare = [load.broker for load in live if not load.settling and load.broker not in involved]
    text = f"the plan reaches a spread of {plan.spread:.1f} points without"
    skips = settling(waiting)
    if spare:
        skips.append(Skip("broker", tuple(sorted(spare)), "not-needed", f"{text} this broker"))
    for row in sorted(sources):
        found, source = cluster.candidates(row), cluster.names[row]
        moved = {one.bundle for one in plan.moves if one.source == row}
        names = cluster.pieces(row).names
        staying = [name for at in found.rows if (name := names[at]) not in moved]
        resting = [name for name in staying if name in cluster.resting]
        skips += must_stay(source, found)
        skips += bundles_left_alone(
            source, "resting", "this strategy moved it within shedding.steady.rest_minutes", resting
        )
        others = [name for name in staying if name not in cluster.resting]
        skips += bundles_left_alone(source, "not-needed", f"{text} moving it", others)
    return skips


def even(cluster: str, nearest: LoadGap | None) -> Skip:
    """Skip of a cluster without a gap that lasts. `nearest`: the one nearest to its limit."""
    if nearest is None:
        text = "no two brokers have enough samples to compare yet"
        return Skip("cluster", (cluster,), "waiting-for-samples", text)
    text = f"no gap lasts: {gap_text(nearest)}, and {nearest.limit:.1f} would count"
    if nearest.points <= 0:
        text = f"no broker is above another in each of {nearest.samples} samples"
    evidence: Evidence = {"gap_points": nearest.points, "limit_points": nearest.limit}
    return Skip("cluster", (cluster,), "even", text, None, evidence)


def no_better_plan(cluster: str, gap: LoadGap) -> Skip:
    """Skip of a cluster in which a gap lasts, but no moves cut it by enough."""
    text = f"{gap_text(gap)}, but no moves cut the spread by a fifth"
    return Skip("cluster", (cluster,), "no-better-plan", text, None, {"gap_points": gap.points})


def resting(cluster: str, episode: Episode, now_ms: int) -> Skip:
    """Skip of a cluster in which the last moves did not help."""
    minutes = (episode.rests_until_ms - now_ms) / _MINUTE_MS
    text = (
        f"the moves of the last {episode.idle_rounds} rounds brought less than a tenth of what "
        f"they should: nothing moves for {minutes:.0f} min, and then at gaps {episode.caution:.2f} "
        "times as large"
    )
    return Skip(
        "cluster",
        (cluster,),
        "moves-did-not-help",
        text,
        None,
        {"rounds": episode.idle_rounds, "caution": episode.caution},
    )

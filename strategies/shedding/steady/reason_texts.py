"""The sentences of decisions and skips."""

from collections.abc import Collection, Mapping, Sequence

from strategies.cluster.model import BrokerLoad, Decision, Evidence, Skip
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.ordered_sum import ordered_sum
from strategies.shedding.candidates import bundles_left_alone, must_stay
from strategies.shedding.reason_texts import setting, settling
from strategies.shedding.steady.lasting_gaps import GapTest, LoadGap, samples_with
from strategies.shedding.steady.memory_format import Episode, LoadHistory
from strategies.shedding.steady.planned_cluster import (
    MovePlan,
    PlannedCluster,
    PlannedMove,
    spread_of,
)
from strategies.shedding.steady.settings import SteadySettings

_MINUTE_MS = 60_000


def gap_text(gap: LoadGap) -> str:
    """`b5 is at least 18.4 points above b1 in the mean of the last 3 samples, and in each by what
    traffic explains`
    """
    return f"{gap.over} is at least {gap.points:.1f} points above {gap.under} in {_shown(gap)}"


def _cause(gap: LoadGap | float, source: str, destination: str) -> str:
    """What the plan is for, as the reason of a move between these brokers: other brokers are not
    its cause, so that it then is a gap of the cluster.
    """
    if not isinstance(gap, LoadGap):
        return f"a limit held back this part of the plan for a gap of {gap:.1f} points"
    if {source, destination} == {gap.over, gap.under}:
        cause = gap_text(gap)
    else:
        cause = f"the cluster has a gap of at least {gap.points:.1f} points in {_shown(gap)}"
    return f"{cause} ({gap.test.limit:.1f} are enough)"


def _shown(gap: LoadGap) -> str:
    """What shows the gap."""
    how = ""
    if gap.by_traffic and gap.test.explained == 1:
        how = ", and in each by what traffic explains"
    elif gap.by_traffic:
        how = f", and traffic explains at least {100 * gap.test.explained:.0f} % of that"
    return f"{_window(gap.test)}{how}"


def _window(test: GapTest) -> str:
    if not test.samples:
        return "the forecast of the next hour"
    if test.averaged:
        return f"the mean of the last {test.samples} samples"
    if test.block == 1:
        return f"each of the last {test.samples} samples"
    return f"each of the last {test.samples // test.block} means of {test.block} samples"


def decisions(
    cluster: PlannedCluster, plan: MovePlan, gap: LoadGap | float
) -> tuple[Decision, ...]:
    """The moves of the plan with their reason, which is the same for all moves between two brokers:
    `explain` shows it once. `gap`: of the rest of a plan, the points of the gap that it was for.
    """
    pairs: dict[tuple[int, int], list[PlannedMove]] = {}
    for move in plan.moves:
        pairs.setdefault((move.source, move.destination), []).append(move)
    count = len(plan.moves)
    moves = "this brings" if count == 1 else f"the {count} moves of the plan bring"
    code, evidence = _evidence(gap)
    before = spread_of(cluster.brokers.usage)
    passes = ", which comes and goes" if code in ("forecast-gap", "near-limit") else ""
    whole = f"{moves} the estimated spread from {before:.1f} to {plan.spread:.1f}{passes}"
    texts = {
        (source, destination): f"{_cause(gap, cluster.names[source], cluster.names[destination])}: "
        f"{_effect(cluster, together, pairs.get((destination, source), []))}; {whole}"
        for (source, destination), together in pairs.items()
    }
    return tuple(
        Decision(
            move.bundle,
            cluster.names[move.source],
            cluster.names[move.destination],
            code,
            texts[move.source, move.destination],
            {
                **evidence,
                "source_loses_points": loses,
                "destination_gains_points": gains,
                "spread_points": before,
                "planned_spread_points": plan.spread,
            },
            f"exchange-{move.exchange}" if move.exchange else None,
            (loses / 100, gains / 100),
        )
        for move in plan.moves
        for loses, gains in [cluster.brokers.effect(move)]
    )


def _evidence(gap: LoadGap | float) -> tuple[str, Evidence]:
    """Code and figures of what a plan is for."""
    if not isinstance(gap, LoadGap):
        return "rest-of-plan", {"gap_points": gap}
    return gap.test.code, {
        "gap_points": gap.points,
        "limit_points": gap.test.limit,
        "samples": gap.test.samples,
    }


def _effect(
    cluster: PlannedCluster, together: Sequence[PlannedMove], opposite: Sequence[PlannedMove]
) -> str:
    """`moving 2 bundles takes 9.8 points from b5 and adds 9.1 to b1`. `together`: between the same
    brokers; `opposite`: the other way.
    """
    source, destination = together[0].source, together[0].destination
    size, capacity = ordered_sum(one.size for one in together), cluster.brokers.capacity
    exchanges = {one.exchange for one in together if one.exchange}
    back = ", ".join(one.bundle for one in opposite if one.exchange in exchanges)
    exchange = f", in exchange for {back}" if back else ""
    return (
        f"moving {counted(len(together), 'bundle')} takes {size / float(capacity[source]):.1f} "
        f"points from {cluster.names[source]} and adds {size / float(capacity[destination]):.1f} "
        f"to {cluster.names[destination]}{exchange}"
    )


def left_alone(
    cluster: PlannedCluster,
    plan: MovePlan,
    live: Sequence[BrokerLoad],
    rest: str,
    advice: Sequence[Skip],
) -> list[Skip]:
    """Skips of the live brokers, and of the bundles of sources, that the plan does not need.
    `rest`: why bundles rest; `advice`: skips that the round has already.
    """
    sources, moved = {one.source for one in plan.moves}, {one.bundle for one in plan.moves}
    involved = {cluster.names[row] for row in sources | {one.destination for one in plan.moves}}
    waiting, spare = list[str](), list[str]()
    for load in live:  # once: thousands of brokers lie scattered in memory
        (waiting if load.settling else spare).append(load.broker)
    spare = [name for name in spare if name not in involved]
    text = f"the plan reaches a spread of {plan.spread:.1f} points without"
    skips = settling(sorted(waiting))
    if spare:
        skips.append(Skip("broker", tuple(sorted(spare)), "not-needed", f"{text} this broker"))
    for row in sorted(sources):
        leaving = {one.bundle for one in plan.moves if one.source == row}
        gone = leaving | _advised(advice, cluster.names[row])
        why = "not-needed", f"{text} moving it"
        skips += _bundles(cluster, row, gone, rest, why, taken=moved - leaving)
    return skips


def no_better_plan(
    cluster: PlannedCluster,
    gap: LoadGap,
    live: Sequence[BrokerLoad],
    rest: str,
    advice: Sequence[Skip],
) -> list[Skip]:
    """Skips of a cluster in which a gap lasts, but no moves cut it by enough, and of the bundles of
    the fuller broker. `live`, `rest`, `advice`: as in `left_alone`.
    """
    skips = no_plan(cluster.view.cluster, gap, live)
    if gap.over in cluster.names:
        text = f"no plan that moves it cuts the spread by {_enough(gap)}"
        row = cluster.names.index(gap.over)
        gone = _advised(advice, gap.over)
        skips += _bundles(cluster, row, gone, rest, ("no-better-plan", text))
    return skips


def _advised(advice: Sequence[Skip], broker: str) -> set[str]:
    """Bundles of a broker that these skips name."""
    return {name for skip in advice if skip.broker == broker for name in skip.names}


def _bundles(
    cluster: PlannedCluster,
    row: int,
    gone: Collection[str],
    rest: str,
    why: tuple[str, str],
    *,
    taken: Collection[str] = (),
) -> list[Skip]:
    """Skips of the bundles of a broker without those that are `gone`. `rest`: why bundles rest;
    `why`: code and text of those that may move; `taken`: bundles that leave other brokers.
    """
    found, source = cluster.candidates(row, taken), cluster.names[row]
    names = cluster.pieces(row).names
    staying = [name for at in found.rows if (name := names[at]) not in gone]
    resting = [name for name in staying if name in cluster.resting]
    others = [name for name in staying if name not in cluster.resting]
    return [
        *must_stay(source, found),
        *bundles_left_alone(source, "resting", rest, resting),
        *bundles_left_alone(source, *why, others),
    ]


def rest_text(minutes: float, settings: SteadySettings) -> str:
    """Why a bundle rests that was moved within these minutes: all of the rest time, or a part."""
    part = "a part of " if minutes < settings.rest_minutes else ""
    named = setting("shedding.steady.rest_minutes", settings.rest_minutes)
    return f"this strategy moved it in the last {minutes:.0f} min ({part}{named})"


def even(cluster: str, nearest: LoadGap | None, doubted: Sequence[str], lasting: float) -> Skip:
    """Skip of a cluster without a gap that lasts. `nearest`: the one nearest to its limit;
    `doubted`: brokers whose usage jumped without their traffic; `lasting`: gap (points) that counts
    once it has lasted.
    """
    if nearest is None:
        text = "no two brokers have enough samples to compare yet"
        return Skip("cluster", (cluster,), "waiting-for-samples", f"{text}{_doubts(doubted)}")
    text = f"no gap lasts: {gap_text(nearest)}, and {nearest.test.limit:.1f} would count"
    if nearest.points < 0.05:  # reads as 0.0
        text = f"no broker is above another one in {_window(nearest.test)}"
    evidence: Evidence = {
        "gap_points": nearest.points,
        "limit_points": nearest.test.limit,
        "lasting_points": lasting,
    }
    return Skip("cluster", (cluster,), "even", f"{text}{_doubts(doubted)}", None, evidence)


def _doubts(doubted: Sequence[str]) -> str:
    if not doubted:
        return ""
    more = f" and {counted(len(doubted) - 1, 'other broker')}" if len(doubted) > 1 else ""
    return f"; the jump of usage on {doubted[0]}{more} does not count yet: traffic stood still"


def no_plan(cluster: str, gap: LoadGap, live: Sequence[BrokerLoad]) -> list[Skip]:
    """Skips of a cluster in which a gap lasts, but no moves cut it by enough, or a broker that
    these would need took part in a move that no sample shows yet.
    """
    waiting = sorted(load.broker for load in live if load.settling)
    ends = [name for name in (gap.over, gap.under) if name in waiting]
    code, text = "no-better-plan", f"no plan cuts the spread by {_enough(gap)}"
    if ends:
        code, text = "waiting-for-moves", f"no sample shows the last move of {ends[0]} yet"
    evidence: Evidence = {"gap_points": gap.points}
    skip = Skip("cluster", (cluster,), code, f"{gap_text(gap)}, but {text}", None, evidence)
    return [skip, *settling(waiting)]


def comes_and_goes(cluster: str, gap: LoadGap, histories: Mapping[str, LoadHistory]) -> Skip:
    """Skip of a cluster in which the gap is not expected to last."""
    shown, count = samples_with(gap, histories)
    text = (
        f"{gap_text(gap)}, but load comes and goes: {shown} of the last {count} samples show "
        "such a gap, and no plan pays by the forecast of the next hour, or the last is too young"
    )
    evidence: Evidence = {"gap_points": gap.points, "shown": shown, "samples": count}
    return Skip("cluster", (cluster,), "load-comes-and-goes", text, None, evidence)


def _enough(gap: LoadGap) -> str:
    per_move = ", and per move by a tenth of what the last moves were to bring"
    return f"a fifth{per_move if gap.test.code == 'follow-up' else ''}"


def resting(cluster: str, episode: Episode, now_ms: int) -> Skip:
    """Skip of a cluster in which the last moves did not help."""
    minutes = (episode.rests_until_ms - now_ms) / _MINUTE_MS
    text = (
        f"the moves of the last {episode.idle_rounds} rounds brought less than a tenth of what "
        f"they should: nothing moves for another {minutes:.0f} min, and then only gaps "
        f"{episode.caution:.2f} times as large count"
    )
    return Skip(
        "cluster",
        (cluster,),
        "moves-did-not-help",
        text,
        None,
        {"rounds": episode.idle_rounds, "caution": episode.caution},
    )

"""Follows the last plan: whether its moves were carried out, their effect compared with the
prediction, and those that a limit held back, which are decided again.

After moves that brought nothing, the strategy rests and asks for larger gaps.

A limit slows a plan down and does not change where it ends, so the rest needs no new evidence: the
samples after its first moves would be too few for that, and a move that is worth it with the others
may not be worth it alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from strategies.cluster.model import BrokerLoad, ClusterView, Skip
from strategies.cluster.rival_state import AGE_MS
from strategies.cluster.strategy_memory import Memory
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.lasting_gaps import LoadGap
from strategies.shedding.steady.load_samples import counted, judged, load_of, uncounted
from strategies.shedding.steady.memory_format import (
    Episode,
    LoadHistory,
    RecentMove,
    histories_of,
    moves_of,
)
from strategies.shedding.steady.planned_cluster import (
    MovePlan,
    PlannedCluster,
    PlannedMove,
    after_moves,
    spread_of,
)

#: Clean samples of a broker that show the effect of its moves.
_SAMPLES = 2
#: Moves that bring less than this part of the predicted cut of the spread were useless.
USELESS = 0.1
#: Rounds of useless moves in a row after which the strategy rests, and after which an episode ends.
RESTS_AFTER, ENDS_AFTER = 2, 3
#: Moves are not judged if the traffic of a broker changed by more than this part since.
OTHER_TRAFFIC = 0.2
#: The first rest, which doubles with every further round of useless moves, and the longest one.
REST_MS, LONGEST_REST_MS = 1_800_000, 21_600_000
#: How long the comparison of moves with their prediction is remembered: longer than a rest lasts.
JUDGED_AGE_MS = 28_800_000
#: Factor of all limits after each round of useless moves, and its bound.
CAREFUL, MOST_CAREFUL = 1.25, 2.0


def remembered(episode: Episode, now_ms: int) -> Episode:
    """The episode, without what its last judged moves said once that is forgotten."""
    if episode.judged_at_ms < 0 or now_ms <= episode.judged_at_ms + JUDGED_AGE_MS:
        return episode
    return episode._replace(
        judged_at_ms=-1, error=None, idle_rounds=0, idle_moves=0, caution=1.0, rests_until_ms=-1
    )


def settled(
    loads: Sequence[BrokerLoad],
    before: Sequence[RecentMove],
    memory: Memory,
    view: ClusterView,
) -> tuple[dict[str, LoadHistory], list[RecentMove], list[RecentMove]]:
    """The histories with the moves of the last round counted in, these moves with those before,
    and those that a limit held back. A move that filters or an executor refused is dropped: its
    bundle does not cool down. One that was refused later, or that no executor has carried out
    in time, no longer counts.
    """
    histories = histories_of(memory, (load.broker for load in loads))
    moves, brokers = list[RecentMove](), {one.broker: one for one in view.brokers}
    held = [one for one in before if one.held]
    for move in before:
        if move.held:
            continue
        rests = view.now_ms - move.at_ms >= view.cool_down_ms
        waits = move.bundle in view.cooling or (move.counted and rests)
        shown = (move.shown and waits) or _shown(move, brokers)
        # The cool-down of a move that is shown may end before the next round.
        made = shown is not False or (waits and not _is_lost(move, brokers[move.source], view))
        for name, sign in ((move.source, -1), (move.destination, 1)):
            if name in histories and made and not move.counted:
                histories[name] = counted(histories[name], move, sign)
            elif name in histories and move.counted and not made:
                histories[name] = uncounted(
                    histories[name],
                    move,
                    sign,
                    move.at_ms + view.command_ttl_ms,
                    brokers[name].figures.bundle_count,
                )
        if made:
            moves.append(move._replace(counted=True, shown=move.shown or shown is True))
    return histories, moves, held


def _shown(move: RecentMove, brokers: Mapping[str, BrokerLoad]) -> bool | None:
    """Whether reports show that a decided move was carried out; None without a report of its
    source.
    """
    source, destination = (
        name in brokers and move.bundle in brokers[name].bundles.names
        for name in (move.source, move.destination)
    )
    return destination or (not source if move.source in brokers else None)


def _is_lost(move: RecentMove, source: BrokerLoad, view: ClusterView) -> bool:
    """Whether the command for a move was not carried out, if this report does not show it."""
    reported_at_ms = view.now_ms if source.reported_at_ms is None else source.reported_at_ms
    return reported_at_ms >= _shown_by(move, view)


def _shown_by(move: RecentMove, view: ClusterView) -> int:
    """From when on all reports show a move, if its command was carried out."""
    return move.at_ms + view.command_ttl_ms + AGE_MS


def ends_of(
    before: Sequence[RecentMove], made: Sequence[RecentMove], view: ClusterView
) -> tuple[set[str], set[str]]:
    """The brokers that a move may have left since the reports before these, and those that one may
    have reached, which some reports show later. `before`: as these reports had shown them.
    """
    shown = {(one.bundle, one.at_ms) for one in before if one.shown}
    moves = [one for one in made if view.now_ms < _shown_by(one, view)]
    left = {one.source for one in moves if (one.bundle, one.at_ms) not in shown}
    return left, {one.destination for one in moves}


def judged_moves(
    episode: Episode,
    histories: Mapping[str, LoadHistory],
    moves: Sequence[RecentMove],
    now_ms: int,
    foreign_ms: int = -1,
) -> Episode:
    """The episode after the effect of its last moves has been compared with the prediction; the
    same one while reports do not show all of them or samples are missing, and once it has been
    compared. `foreign_ms`: the newest move by something else, which may have undone these.

    Moves that cannot be judged add nothing to what is remembered, and make it last no longer.
    """
    if episode.judged:
        return episode
    last = last_moves(episode, moves)
    involved = dict.fromkeys(
        name for move in last for name in (move.source, move.destination) if name in histories
    )
    if not involved:  # no move was commanded, or its brokers left
        return episode._replace(judged=True)
    if not all(move.shown for move in last) or any(
        len(judged(histories[name])) < _SAMPLES for name in involved
    ):
        return episode
    usages = {
        name: load.usage for name, one in histories.items() if (load := load_of(one)) is not None
    }
    ends = max(usages, key=usages.__getitem__), min(usages, key=usages.__getitem__)
    cut = episode.spread_before - (usages[ends[0]] - usages[ends[1]])
    whole = episode.spread_before - episode.spread_predicted
    predicted = _cut_of_part(last, histories) if len(last) < episode.planned else whole
    episode = episode._replace(judged=True)
    # Of a plan that was carried out in part, the rest may have been to bring nearly all of it.
    if foreign_ms >= episode.last_at_ms or predicted < USELESS * whole:
        return episode
    if any(_has_other_traffic(histories[name], episode.last_at_ms) for name in (*involved, *ends)):
        return episode
    errors = [_error(histories[name]) for name in involved]
    known = [error for error in errors if error is not None]
    error = ordered_sum(known) / len(known) if known else None
    episode = episode._replace(judged_at_ms=now_ms, error=error)
    if cut >= USELESS * predicted:
        caution = max(1.0, episode.caution / CAREFUL)
        return episode._replace(idle_rounds=0, caution=caution, idle_moves=0)
    idle = episode.idle_rounds + 1
    episode = episode._replace(
        idle_rounds=idle,
        caution=min(episode.caution * CAREFUL, MOST_CAREFUL),
        idle_moves=episode.idle_moves + len(last),
    )
    if idle >= ENDS_AFTER:
        episode = episode._replace(followed_up=True)
    if idle < RESTS_AFTER:
        return episode
    rest_ms = min(REST_MS << (idle - RESTS_AFTER), LONGEST_REST_MS)
    return episode._replace(rests_until_ms=now_ms + rest_ms)


def without_lost(
    episode: Episode, before: Sequence[RecentMove], made: Sequence[RecentMove]
) -> Episode:
    """The episode as if its last plan had not been decided, once no move of it remains that had
    counted as done before.
    """
    was_counted = any(move.counted for move in last_moves(episode, before))
    if not was_counted or last_moves(episode, made):
        return episode
    if episode.began_at_ms < episode.last_at_ms:  # it was a follow-up
        return episode._replace(judged=True, followed_up=False)
    return episode._replace(judged=True, began_at_ms=-1)


def last_moves(episode: Episode, moves: Sequence[RecentMove]) -> list[RecentMove]:
    """The moves of the episode's last plan."""
    planned_at_ms = episode.last_at_ms if episode.planned_at_ms < 0 else episode.planned_at_ms
    return [one for one in moves if planned_at_ms <= one.at_ms <= episode.last_at_ms]


def _cut_of_part(moves: Sequence[RecentMove], histories: Mapping[str, LoadHistory]) -> float:
    """The predicted cut of the spread by moves of which others of their plan were not carried out:
    by the older samples, which include these moves.
    """
    at_ms = moves[0].at_ms
    after = {
        name: ordered_sum(one.usage for one in older) / len(older)
        for name, history in histories.items()
        if (older := [one for one in history.samples if one.at_ms <= at_ms][-_SAMPLES:])
    }
    before = dict(after)
    for move in moves:
        for name, change in (
            (move.source, -move.source_loses),
            (move.destination, move.destination_gains),
        ):
            if name in before:
                before[name] -= change
    spreads = (max(usages.values()) - min(usages.values()) for usages in (before, after) if usages)
    return next(spreads, 0.0) - next(spreads, 0.0)


def _has_other_traffic(history: LoadHistory, moved_at_ms: int) -> bool:
    """Whether a broker's traffic is not what the moves left: its usage says nothing about them."""
    newer = [one for one in history.samples if one.at_ms > moved_at_ms][-_SAMPLES:]
    older = [one for one in history.samples if one.at_ms <= moved_at_ms][-_SAMPLES:]
    if not newer or not older:
        return True
    for figure in (2, 3):
        new, old = (
            ordered_sum(float(one[figure]) for one in few) / len(few) for few in (newer, older)
        )
        if abs(new - old) > OTHER_TRAFFIC * max(new, old):
            return True
    return False


def _error(history: LoadHistory) -> float | None:
    """Difference between the usage that older samples predict and what newer ones show; None
    without older ones.
    """
    seen = judged(history)
    older = history.samples[: len(history.samples) - len(seen)]
    if not older:
        return None
    recent = older[-_SAMPLES:]
    predicted = ordered_sum(one.usage for one in recent) / len(recent)
    return abs(ordered_sum(one.usage for one in seen) / len(seen) - predicted)


def hold(memory: Memory, bundles: Collection[str]) -> Memory:
    """The memory in which these bundles, which a limit held back, only have to wait."""
    moves = [
        one._replace(held=True) if one.bundle in bundles and not one.counted else one
        for one in moves_of(memory.cluster)
    ]
    return replace(memory, cluster=replace(memory.cluster, moves=tuple(moves)))


def goes_on(
    found: LoadGap | Skip,
    held: Sequence[RecentMove],
    episode: Episode,
    made: Sequence[RecentMove],
    now_ms: int,
) -> bool:
    """Whether the rest of the last plan may follow. It does not while the strategy rests, nor where
    `found` is evidence for a new plan and nothing of this one was made: neither ever, nor in the
    last round, when the limit had no room for what is left.
    """
    if not held or not last_moves(episode, made) or now_ms < episode.rests_until_ms:
        return False
    stuck = not _was_used(episode, made)
    return not (stuck and isinstance(found, LoadGap) and found.test.code != "follow-up")


def _was_used(episode: Episode, made: Sequence[RecentMove]) -> bool:
    """Whether the last round of the plan had moves."""
    return any(one.at_ms == episode.last_at_ms for one in made)


def without_swaps(
    plan: MovePlan, held: Sequence[RecentMove], episode: Episode, made: Sequence[RecentMove]
) -> MovePlan:
    """The plan, with the halves of a swap as moves of their own if the limit had no room for both
    in the last round. The first half alone leaves its destination below its source.
    """
    if _was_used(episode, made) or not any(one.exchange for one in held):
        return plan
    return replace(plan, moves=tuple(replace(one, exchange=0) for one in plan.moves))


def rest_of_plan(
    cluster: PlannedCluster, held: Sequence[RecentMove], episode: Episode
) -> MovePlan | None:
    """The moves of the plan that are still to be made, without those that would now make their
    destination fuller than their source; None if the brokers are as even as the plan was to make
    them, or would be no more even with these moves than they are.
    """
    brokers, moves = cluster.brokers, list[PlannedMove]()
    usage = brokers.usage.copy()
    for move in filter(None, (_planned(cluster, one) for one in held)):
        loses, gains = brokers.effect(move)
        before, room = usage[move.source], brokers.ceiling(move.source, move.destination)
        if usage[move.destination] + gains <= before + room:
            usage[move.source] -= loses
            usage[move.destination] += gains
            moves.append(move)
    plan = MovePlan(tuple(moves), *after_moves(brokers, moves))
    now = spread_of(brokers.usage)
    return plan if now > max(plan.spread, 100 * episode.spread_predicted) else None


def _planned(cluster: PlannedCluster, move: RecentMove) -> PlannedMove | None:
    """The move with the bundle's present size; None where it can no longer be made."""
    if move.source not in cluster.names or move.destination not in cluster.names:
        return None
    source, destination = (cluster.names.index(one) for one in (move.source, move.destination))
    brokers = cluster.brokers
    pieces = brokers.pieces(source)
    if move.bundle not in pieces.names:
        return None
    row = pieces.names.index(move.bundle)
    if not pieces.movable[row] or not brokers.takers(move.bundle, source)[destination]:
        return None
    return brokers.move(source, row, destination, move.exchange)


def returns(moves: Sequence[RecentMove]) -> int:
    """Number of moves that took a bundle back to a broker that one before had taken it from."""
    left, returns = set[tuple[str, str]](), 0
    for move in moves:
        returns += (move.bundle, move.destination) in left
        left.add((move.bundle, move.source))
    return returns


def episode_after(
    episode: Episode, gap: LoadGap | float, cluster: PlannedCluster, plan: MovePlan, now_ms: int
) -> Episode:
    """The episode after a plan. `gap`: what it is for; of the rest of a plan, the points only."""
    if not isinstance(gap, LoadGap):  # the follow-up of a plan comes after its last moves
        began_at_ms = episode.began_at_ms if episode.followed_up else now_ms
        return episode._replace(began_at_ms=began_at_ms, last_at_ms=now_ms, judged=False)
    follows = gap.test.code == "follow-up"
    return episode._replace(
        began_at_ms=episode.began_at_ms if follows else now_ms,
        followed_up=follows,
        last_at_ms=now_ms,
        spread_before=spread_of(cluster.brokers.usage) / 100,
        spread_predicted=plan.spread / 100,
        judged=False,
        planned=len(plan.moves),
        planned_at_ms=now_ms,
        planned_points=gap.points,
    )


def resting(
    moves: Sequence[RecentMove], now_ms: int, rest_minutes: float
) -> tuple[RecentMove, ...]:
    """The moves of the last `rest_minutes`."""
    return tuple(one for one in moves if now_ms - one.at_ms < 60_000 * rest_minutes)

"""Decides a round of SteadyShedder: whether it acts on a gap that lasts, by a plan for the whole
cluster, goes on with the last plan, or leaves everything where it is.

The rule is this project's own. Pulsar has no such class, so both modes run it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isfinite
from operator import attrgetter

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Skip
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usages
from strategies.settings import Weights
from strategies.shedding.broker_memory import with_histories
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import unusable
from strategies.shedding.steady import reason_texts
from strategies.shedding.steady.cheapest_plan import best_plan, pays_twice
from strategies.shedding.steady.effect_and_rest_of_last_plan import (
    ends_of,
    episode_after,
    goes_on,
    hold,
    judged_moves,
    last_moves,
    remembered,
    rest_of_plan,
    resting,
    returns,
    settled,
    without_lost,
    without_swaps,
)
from strategies.shedding.steady.lasting_gaps import (
    LoadGap,
    compared_brokers,
    followed,
    widest_gap,
)
from strategies.shedding.steady.learned_load_cost import LoadCost, learned
from strategies.shedding.steady.load_samples import load_of, recorded
from strategies.shedding.steady.memory_format import (
    Episode,
    LoadHistory,
    RecentMove,
    episode_of,
    moves_of,
)
from strategies.shedding.steady.obstacles_to_balance import cluster_full, why_not_even
from strategies.shedding.steady.optimum_certificate import certified
from strategies.shedding.steady.persistence_of_load import (
    LEFT,
    Persistence,
    follows_a_fall,
    forecast_gap,
    is_calm,
    is_due,
    is_near_limit,
    look,
    looked,
    persistence,
    uncertainty,
)
from strategies.shedding.steady.planned_cluster import (
    MovePlan,
    PlannedCluster,
    PlannedMove,
    no_moves,
    spread_of,
)
from strategies.shedding.steady.settings import MANY, PROFILES, Profile, SteadySettings

#: Above a gap of this many points, bundles rest for this part of their time only: a wrong forecast
#: hurts more than another pause of their clients.
URGENT_GAP, URGENT_REST = 20.0, 1 / 15
#: Part of what the last plan's moves were predicted to cut the spread by on average that a
#: follow-up's moves must: a small correction is as long a pause for a bundle's clients as a large
#: one.
WORTH_OF_LAST = 0.1
#: Time after moves until the figures of brokers show their effect.
SHOWN_MS = 420_000
#: Time between plans on a forecast per move of the last one, and the longest: where load comes and
#: goes, two moves an hour are enough. Young averages learn fast: half of their age is enough.
PAUSE_MS, LONGEST_PAUSE_MS = 1_800_000, 7_200_000


@dataclass(frozen=True)
class SteadyShedder:
    """Moves bundles when a gap between brokers lasts, by a plan for the whole cluster."""

    settings: SteadySettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round. The order of brokers and bundles in the view does not matter."""
        # Brokers in the order of the view, which most likely is their order in memory: thousands
        # by name would take longer.
        usages = weighted_usages([load.figures for load in view.brokers], self.weights).tolist()
        usage = {
            load.broker: value
            for load, value in zip(view.brokers, usages, strict=True)
            if isfinite(value)
        }
        loads = [load for load in view.brokers if load.broker in usage]
        lost = sorted(load.broker for load in view.brokers if load.broker not in usage)
        before = moves_of(memory.cluster)
        known, made, held = settled(loads, before, memory, view)
        moves = resting(made, view.now_ms, self.settings.rest_minutes)
        period_ms = 1000.0 * self.settings.sample_seconds
        histories = {
            load.broker: recorded(
                load, usage[load.broker], known.get(load.broker), view.now_ms, period_ms
            )
            for load in loads
        }
        compared = {name: histories[name] for name in compared_brokers(usage)}
        episode = remembered(episode_of(memory.cluster), view.now_ms)
        episode = without_lost(episode, before, made)
        episode = followed(episode, known, histories, view.now_ms, ends_of(before, made, view))
        if not held:
            episode = judged_moves(episode, compared, moves, view.now_ms, view.foreign_ms)
        round_ = PlannedRound(
            view,
            sorted((load for load in loads if load.broker in compared), key=attrgetter("broker")),
            compared,
            moves,
            episode,
            self.settings,
            loads,
            held,
            with_histories(memory, histories),
            histories,
        )
        decided = round_.decided()
        return replace(decided, skips=(*unusable(lost), *decided.skips))


def gap_or_reason(
    cluster: str,
    histories: Mapping[str, LoadHistory],
    episode: Episode,
    settings: SteadySettings,
    cost: Callable[[], LoadCost],
    *,
    now_ms: int,
    count: int,
) -> LoadGap | Skip:
    """The gap that a round acts on, or why it does not act. `count`: of all live brokers;
    `histories`: of those that are compared; `cost`: of their load; asked where a gap is
    wide enough.
    """
    if now_ms < episode.rests_until_ms:
        return reason_texts.resting(cluster, episode, now_ms)
    profile = PROFILES[settings.steadiness].careful(episode.caution).among(count)
    gap, nearest = widest_gap(
        histories, lambda name, load: cost().expected(name, load), profile, episode, now_ms
    )
    if gap is not None:
        return gap
    doubted = sorted(name for name, one in histories.items() if one.doubted)
    return reason_texts.even(cluster, nearest, doubted, profile.lasting)


@dataclass(frozen=True)
class PlannedRound:
    """What a round decides from. `live`: all brokers with usages; `loads`, `histories`: of the
    brokers that are compared; `held`: moves of the last plan that a limit held back; `memory`:
    without this round's moves and episode; `known`: histories of all live brokers.
    """

    view: ClusterView
    loads: Sequence[BrokerLoad]
    histories: Mapping[str, LoadHistory]
    moves: tuple[RecentMove, ...]
    episode: Episode
    settings: SteadySettings
    live: Sequence[BrokerLoad]
    held: Sequence[RecentMove]
    memory: Memory
    known: Mapping[str, LoadHistory]

    @cached_property
    def cost(self) -> LoadCost:
        limits = {one.broker: one.figures.cpu.limit for one in self.live}
        return learned(self.histories, limits)

    @cached_property
    def others(self) -> Sequence[BrokerLoad]:
        """The live brokers that are not compared."""
        return [load for load in self.live if load.broker not in self.histories]

    def decided(self) -> Shedding:
        """The moves of the round, or why there are none."""
        found = gap_or_reason(
            self.view.cluster,
            self.histories,
            self.episode,
            self.settings,
            lambda: self.cost,
            now_ms=self.view.now_ms,
            count=len(self.live),
        )
        if goes_on(found, self.held, self.episode, self.moves, self.view.now_ms):
            minutes = self._rest_minutes(self.episode.planned_points)
            cluster = self._cluster(self._resting(minutes), 0.0, settling=True)
            rest = rest_of_plan(cluster, self.held, self.episode)
            if rest is not None:
                return self._moved(cluster, rest, self.episode.planned_points, minutes)
        if not self.profile.forecasts or self.view.now_ms < self.episode.rests_until_ms:
            return self._shedding([found]) if isinstance(found, Skip) else self._planned(found)
        if not is_due(self.episode, self.profile, self.view.now_ms):
            return self._foreseen(found, at_look=False)
        calm = bool(self.others) or is_calm(self.histories, self.profile)
        seen = None if calm else look(self._cluster(frozenset(), 0.0), self.histories)
        after = replace(self, episode=looked(self.episode, self.view.now_ms, seen))
        return after._foreseen(found, at_look=not calm)

    @cached_property
    def profile(self) -> Profile:
        return PROFILES[self.settings.steadiness].among(len(self.live))

    def _foreseen(self, found: LoadGap | Skip, *, at_look: bool) -> Shedding:
        """The round where forecasts may decide."""
        lasting = persistence(self.episode)
        if isinstance(found, LoadGap) and not (
            lasting.comes_and_goes or follows_a_fall(found, self.histories)
        ):
            return self._planned(found)
        if lasting.usual > 0 and (at_look or isinstance(found, LoadGap)):
            decided = self._by_forecast(lasting)
            if decided is not None:
                return decided
        if isinstance(found, LoadGap):
            found = reason_texts.comes_and_goes(self.view.cluster, found, self.histories)
        return self._shedding([found])

    def _by_forecast(self, lasting: Persistence) -> Shedding | None:
        """A plan for the forecast, if its gap counts. A broker near its limit does not wait."""
        urgent = is_near_limit(self.histories)
        pause_ms = min(
            max(1, self.episode.planned) * PAUSE_MS, LONGEST_PAUSE_MS, lasting.looked_ms // 2
        )
        if urgent:
            pause_ms = SHOWN_MS
        if self.view.now_ms - self.episode.last_at_ms < pause_ms:
            return None
        rest = self._rest_minutes(0.0)
        cluster = self._cluster(self._resting(rest), 0.0)
        later = replace(cluster, lasting=lasting.of)
        unsure = uncertainty(later, lasting, 1000.0 * self.settings.sample_seconds)
        gap = forecast_gap(cluster, later, self.profile, unsure, urgent=urgent)
        if gap is None:
            return None
        profile = replace(self.profile, band=max(self.profile.band, LEFT * unsure))
        plan = best_plan(later.brokers, profile)
        if not pays_twice(later.brokers, plan):
            return None
        usually = replace(cluster, lasting=lambda points: 0.0).brokers
        if plan.on(usually).spread > max(spread_of(usually.usage), profile.band):
            return None
        return self._moved(cluster, plan.on(cluster.brokers), gap, rest)

    def _planned(self, gap: LoadGap) -> Shedding:
        rest_minutes = self._rest_minutes(gap.points)
        cluster = self._cluster(self._resting(rest_minutes), gap.test.limit if self.others else 0.0)
        if len(cluster.known) < 2:
            return self._shedding(reason_texts.no_plan(self.view.cluster, gap, self.live))
        follows = gap.test.code == "follow-up"
        least = self._least_cut() if follows else 0.0
        plan = best_plan(cluster.brokers, self.profile, follows=follows, least=least)
        return self._moved(cluster, plan, gap, rest_minutes)

    def _moved(
        self, cluster: PlannedCluster, plan: MovePlan, gap: LoadGap | float, rest_minutes: float
    ) -> Shedding:
        """The moves of a plan. `gap`: what it is for; of the rest of a plan, the points only."""
        few = len(self.live) <= MANY
        even = self.profile.band if few else self.profile.follow_up
        if self.view.even is None:  # else no half may move alone
            plan = without_swaps(plan, self.held, self.episode, self.moves)
        whole = cache(lambda: self._certified(cluster, plan))

        def certify(moving: Collection[str]) -> Certificate:
            kept = plan.only(moving, cluster.brokers)
            return whole() if kept is plan else self._certified(cluster, kept)

        advice = [
            *cluster_full(cluster),
            *why_not_even(cluster, plan, even, lambda: 100 * (whole().best_spread or 0.0)),
        ]
        rest = reason_texts.rest_text(rest_minutes, self.settings)
        if not plan.moves and isinstance(gap, LoadGap):
            skips = [*reason_texts.no_better_plan(cluster, gap, self.live, rest, advice), *advice]
            return self._shedding(skips, certify=certify)
        after = replace(
            self,
            moves=(*self.moves, *(self._recent(move, cluster) for move in plan.moves)),
            episode=episode_after(self.episode, gap, cluster, plan, self.view.now_ms),
        )
        skips = [*advice, *reason_texts.left_alone(cluster, plan, self.live, rest, advice)]
        return after._shedding(skips, reason_texts.decisions(cluster, plan, gap), certify)

    def _least_cut(self) -> float:
        """What each move of a follow-up must cut the spread by, in points."""
        last = last_moves(self.episode, self.moves)
        cut = 100 * (self.episode.spread_before - self.episode.spread_predicted)
        return WORTH_OF_LAST * cut / len(last) if last else 0.0

    def _shedding(
        self,
        skips: Sequence[Skip],
        decisions: tuple[Decision, ...] = (),
        certify: Callable[[Collection[str]], Certificate | None] | None = None,
    ) -> Shedding:
        """The result of the round. Without `certify`, no table is read unless bounds are asked."""
        episode, memory = self.episode, self.memory
        kept = replace(memory.cluster, moves=self.moves, episode=episode)
        forecast = Forecast(
            episode.error, episode.idle_rounds, returns(self.moves), episode.idle_moves
        )
        memory = Memory(memory.brokers, kept)
        certify = certify or self._certify
        return Shedding(decisions, tuple(skips), memory, certify, forecast, hold, self._effect)

    def _effect(self, *names: str) -> tuple[float, float] | None:
        return self._whole.effect_of(*names)

    @cached_property
    def _whole(self) -> PlannedCluster:
        return self._cluster(frozenset(), 0.0, settling=True)

    def _certify(self, _: Collection[str]) -> Certificate | None:
        cluster = self._cluster(frozenset(), 0.0)
        if len(cluster.known) < 2:
            return None
        return self._certified(cluster, no_moves(cluster.brokers))

    def _certified(self, cluster: PlannedCluster, plan: MovePlan) -> Certificate:
        return certified(cluster.brokers, plan, self._unread if cluster.lists_all else None)

    @cached_property
    def _unread(self) -> tuple[Floats, Floats]:
        """Usages and capacities of the brokers that are not compared."""
        rest = self._cluster(frozenset(), 0.0, self.others, settling=True).brokers
        return rest.usage, rest.capacity

    def _cluster(
        self,
        resting: frozenset[str],
        apart: float,
        loads: Sequence[BrokerLoad] | None = None,
        *,
        settling: bool = False,
    ) -> PlannedCluster:
        """The cluster without brokers that must neither give nor take (unless `settling`: with
        them), or have no sample yet.
        """
        known = [
            (load, now)
            for load in (self.loads if loads is None else loads)
            if (settling or not load.settling)
            and (now := load_of(self.known[load.broker])) is not None
        ]
        left = frozenset((one.bundle, one.source) for one in self.moves)
        return PlannedCluster(self.view, known, self.cost, resting, left, apart)

    def _rest_minutes(self, points: float) -> float:
        profile = PROFILES[self.settings.steadiness]
        part = min(profile.rest, URGENT_REST if points > URGENT_GAP else 1.0)
        return part * self.settings.rest_minutes

    def _resting(self, rest_minutes: float) -> frozenset[str]:
        moves = resting(self.moves, self.view.now_ms, rest_minutes)
        return frozenset(one.bundle for one in moves)

    def _recent(self, move: PlannedMove, cluster: PlannedCluster) -> RecentMove:
        throughput, rate = cluster.traffic_of(move.source, move.bundle)
        loses, gains = cluster.brokers.effect(move)
        return RecentMove(
            move.bundle,
            cluster.names[move.source],
            cluster.names[move.destination],
            self.view.now_ms,
            throughput,
            rate,
            loses / 100,
            gains / 100,
            exchange=move.exchange,
        )

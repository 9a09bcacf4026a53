"""SteadyShedder: one round, from the samples of all brokers to the moves of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from strategies.load_history import Episode, LoadHistory, LoadSample, RecentMove
from strategies.model import (
    NO_MEMORY,
    BrokerLoad,
    ClusterView,
    Decision,
    Memory,
    Shedding,
    Skip,
)
from strategies.settings import Weights
from strategies.shedding.candidates import candidates
from strategies.shedding.reason_texts import unusable
from strategies.shedding.steady.cost import Cost, learned
from strategies.shedding.steady.gaps import Gap, crowd_points, widest_gap
from strategies.shedding.steady.plan import Brokers, Pieces, Plan, best_plan
from strategies.shedding.steady.samples import counted, load_of, recorded
from strategies.shedding.steady.settings import PROFILES, Profile, SteadySettings
from strategies.usage import usages_by_name

_MINUTE_MS = 60_000
#: Above a gap of this many points, bundles rest for a fraction of the time only.
_URGENT_GAP, _URGENT_REST = 20.0, 1 / 15


@dataclass(frozen=True)
class SteadyShedder:
    """Moves bundles when a gap lasts, by a plan for the whole cluster."""

    settings: SteadySettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round. The order of brokers and bundles in the view does not matter."""
        profile, now_ms = PROFILES[self.settings.steadiness], view.now_ms
        brokers, usages = usages_by_name(view.brokers, self.weights)
        finite = np.isfinite(usages)
        lost = [brokers[row].broker for row in np.flatnonzero(~finite).tolist()]
        loads = [brokers[row] for row in np.flatnonzero(finite).tolist()]
        period_ms = 1000.0 * self.settings.sample_seconds
        histories, moves = _settled(loads, memory, view, int(self.settings.rest_minutes * 60_000))
        histories = {
            load.broker: recorded(load, float(usage), histories.get(load.broker), now_ms, period_ms)
            for load, usage in zip(loads, usages[finite], strict=True)
        }
        episode = memory.cluster.episode
        believed, widest = widest_gap(histories, profile, episode, now_ms)
        decisions: tuple[Decision, ...] = ()
        skips: list[Skip] = unusable(lost)
        if believed is None:
            skips.append(_even(view, widest))
        else:
            planned = _planned(view, loads, histories, moves, profile, believed, self.settings)
            decisions = planned.decisions
            if decisions:
                moves = (*moves, *planned.moves)
                episode = _after_moves(episode, now_ms, believed)
            else:
                skips.append(
                    Skip(
                        "cluster",
                        (view.cluster,),
                        "no-better-plan",
                        f"{_gap_text(believed)}, but no plan cuts the spread by a fifth",
                    )
                )
        kept = {
            name: replace(memory.brokers.get(name, NO_MEMORY), history=history)
            for name, history in histories.items()
        }
        gone = {
            name: replace(one, history=None)
            for name, one in memory.brokers.items()
            if name not in kept
        }
        return Shedding(
            decisions,
            tuple(skips),
            Memory(
                {**{n: o for n, o in gone.items() if o != NO_MEMORY}, **kept},
                replace(memory.cluster, moves=moves, episode=episode),
            ),
        )


def _settled(
    loads: Sequence[BrokerLoad], memory: Memory, view: ClusterView, rest_ms: int
) -> tuple[dict[str, LoadHistory], tuple[RecentMove, ...]]:
    """Histories with the moves counted in that were commanded; moves that were refused or are older
    than the rest time are dropped.
    """
    histories = {
        load.broker: kept
        for load in loads
        if (kept := memory.brokers.get(load.broker, NO_MEMORY).history) is not None
    }
    moves = []
    for move in memory.cluster.moves:
        if move.counted:
            if view.now_ms - move.at_ms < rest_ms:
                moves.append(move)
        elif move.bundle in view.cooling:
            for name, sign in ((move.source, -1), (move.destination, 1)):
                if name in histories:
                    histories[name] = counted(histories[name], move, sign)
            moves.append(move._replace(counted=True))
    return histories, tuple(moves)


@dataclass(frozen=True, slots=True)
class _Planned:
    decisions: tuple[Decision, ...]
    moves: tuple[RecentMove, ...]
    plan: Plan


def _planned(view, loads, histories, moves, profile, gap, settings) -> _Planned:
    cost = learned(histories)
    known = [
        (load, sample)
        for load in loads
        if not load.settling and (sample := load_of(histories[load.broker])) is not None
    ]
    rest_ms = settings.rest_minutes * _MINUTE_MS * (_URGENT_REST if gap.points > _URGENT_GAP else 1)
    resting = {one.bundle for one in moves if view.now_ms - one.at_ms < rest_ms}
    capacity = np.array([cost.capacity(load.broker, sample) for load, sample in known])
    names = [load.broker for load, _ in known]

    @lru_cache(maxsize=None)
    def pieces(row: int) -> Pieces:
        table = known[row][0].bundles
        throughput, rate = traffic_of(table)
        movable = np.zeros(len(table.names), dtype=bool)
        movable[list(candidates(table, view).rows)] = True
        movable &= np.array([name not in resting for name in table.names], dtype=bool)
        return Pieces(table.names, cost.of_all(throughput, rate), movable)

    def takes(bundle: str, source: int, destination: int) -> bool:
        return view.takers is None or names[destination] in view.takers(bundle, names[source])

    usage = 100.0 * np.array([sample.usage for _, sample in known])
    plan = best_plan(
        Brokers(usage, capacity / 100.0, pieces, takes),
        profile.band + crowd_points(len(known)),
    )
    decisions, recent = [], []
    for one in plan.moves:
        table = known[one.source][0].bundles
        at = table.names.index(one.bundle)
        throughput, rate = (float(column[at]) for column in traffic_of(table))
        loses = one.size / float(capacity[one.source])
        gains = one.size / float(capacity[one.destination])
        decisions.append(
            Decision(
                one.bundle,
                names[one.source],
                names[one.destination],
                gap.code,
                _gap_text(gap),
                {"gap": gap.points},
                f"swap-{one.exchange}" if one.exchange else None,
            )
        )
        recent.append(
            RecentMove(
                one.bundle,
                names[one.source],
                names[one.destination],
                view.now_ms,
                throughput,
                rate,
                loses,
                gains,
            )
        )
    return _Planned(tuple(decisions), tuple(recent), plan)


def traffic_of(table):
    """float64[n] twice: bytes/s and messages/s of bundles, between newest and short-term figures."""
    both = (table.current + table.short) / 2
    return both[:, 2] + both[:, 3], both[:, 0] + both[:, 1]


def _after_moves(episode: Episode, now_ms: int, gap: Gap) -> Episode:
    if gap.code == "follow-up":
        return episode._replace(followed_up=True, last_at_ms=now_ms)
    return episode._replace(began_at_ms=now_ms, last_at_ms=now_ms, followed_up=False)


def _gap_text(gap: Gap) -> str:
    return (
        f"{gap.over} is {gap.points:.1f} points above {gap.under} in each of {gap.samples} samples"
    )


def _even(view: ClusterView, widest: Gap | None) -> Skip:
    text = "no two brokers have samples to compare yet" if widest is None else _gap_text(widest)
    return Skip("cluster", (view.cluster,), "even", text)

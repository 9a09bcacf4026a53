"""SteadyShedder: one round, from the reports of all brokers to their samples, and what its moves
became; `planned_round` decides.

The rule is this project's own. Pulsar has no such class, so both modes run it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.cluster.rival_state import AGE_MS
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usages
from strategies.settings import Weights
from strategies.shedding.broker_memory import with_histories
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import unusable
from strategies.shedding.steady.last_plan import judged_moves, remembered, without_lost
from strategies.shedding.steady.lasting_gaps import followed
from strategies.shedding.steady.load_history import (
    Episode,
    LoadHistory,
    RecentMove,
    histories_of,
    moves_of,
)
from strategies.shedding.steady.load_samples import counted, recorded, uncounted
from strategies.shedding.steady.planned_round import PlannedRound, resting
from strategies.shedding.steady.settings import SteadySettings

#: In larger clusters, a round compares and plans for this many of the fullest, and of the emptiest
#: brokers.
_ENDS = 100


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
        known, made, held = self._settled(loads, before, memory, view)
        moves = resting(made, view.now_ms, self.settings.rest_minutes)
        period_ms = 1000.0 * self.settings.sample_seconds
        histories = {
            load.broker: recorded(
                load, usage[load.broker], known.get(load.broker), view.now_ms, period_ms
            )
            for load in loads
        }
        compared = {name: histories[name] for name in compared_brokers(usage)}
        episode = remembered(Episode(*memory.cluster.episode), view.now_ms)
        episode = without_lost(episode, before, made)
        episode = followed(episode, known, histories, view.now_ms, _ends_of(before, made, view))
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
        )
        decided = round_.decided()
        return replace(decided, skips=(*unusable(lost), *decided.skips))

    def _settled(
        self,
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
            if shown is False:
                made = waits and not _is_lost(move, brokers[move.source], view)
            else:  # its cool-down may end before the next round
                made = True
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


def _ends_of(
    before: Sequence[RecentMove], made: Sequence[RecentMove], view: ClusterView
) -> tuple[set[str], set[str]]:
    """The brokers that a move may have left since the reports before these, and those that one may
    have reached, which some reports show later. `before`: as these reports had shown them.
    """
    shown = {(one.bundle, one.at_ms) for one in before if one.shown}
    moves = [one for one in made if view.now_ms < _shown_by(one, view)]
    left = {one.source for one in moves if (one.bundle, one.at_ms) not in shown}
    return left, {one.destination for one in moves}


def compared_brokers(usage: Mapping[str, float]) -> list[str]:
    """The brokers that a round compares, by name: all, or the fullest and the emptiest."""
    if len(usage) <= 2 * _ENDS:
        return sorted(usage)
    ranked = sorted(sorted(usage), key=usage.__getitem__)
    return sorted(ranked[:_ENDS] + ranked[-_ENDS:])

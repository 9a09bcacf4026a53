"""SteadyShedder: one round, from the reports of all brokers to their samples, and what its moves
became; `planned_round` decides.

The rule is this project's own. Pulsar has no such class, so both modes run it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter

from strategies.cluster.model import ClusterView
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usages
from strategies.settings import Weights
from strategies.shedding.broker_memory import with_histories
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import unusable
from strategies.shedding.steady.last_plan import (
    ends_of,
    judged_moves,
    remembered,
    settled,
    without_lost,
)
from strategies.shedding.steady.lasting_gaps import followed
from strategies.shedding.steady.load_samples import recorded
from strategies.shedding.steady.memory_format import Episode, moves_of
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
        episode = remembered(Episode(*memory.cluster.episode), view.now_ms)
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
        )
        decided = round_.decided()
        return replace(decided, skips=(*unusable(lost), *decided.skips))


def compared_brokers(usage: Mapping[str, float]) -> list[str]:
    """The brokers that a round compares, by name: all, or the fullest and the emptiest."""
    if len(usage) <= 2 * _ENDS:
        return sorted(usage)
    ranked = sorted(sorted(usage), key=usage.__getitem__)
    return sorted(ranked[:_ENDS] + ranked[-_ENDS:])

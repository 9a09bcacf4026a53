"""ThresholdShedder exactly as Pulsar 4.2.4 runs it: order of sums, ties, and what NaN does to it.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder`. Memory: every
broker's EWMA, and the size of the result multimap's table, which is cleared from round to round but
never shrinks. The repaired rule is in `fixed`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.cluster.model import MIB, BrokerLoad, ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usages
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.ordered_sum import ordered_sum
from strategies.settings import Weights
from strategies.shedding.broker_memory import with_ewmas
from strategies.shedding.bundles_to_shed import MARGIN, as_executed, relieve_as_java
from strategies.shedding.candidates import JavaTies
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import gathered, revised
from strategies.shedding.threshold.reason_texts import (
    above_average,
    below_threshold,
    lower_boundary,
    no_load,
    none_below,
    too_little_traffic,
)
from strategies.shedding.threshold.settings import LOWER_MARGIN, ThresholdSettings


@dataclass(frozen=True)
class _JavaJudged:
    """Brokers in map order, their EWMAs, the mean of these, and the memory with them."""

    brokers: tuple[BrokerLoad, ...]
    ewmas: tuple[float, ...]
    mean: float
    memory: Memory


@dataclass(frozen=True)
class ParityThresholdShedder:
    """Sheds from brokers whose EWMA is at least the mean of all EWMAs plus the threshold."""

    settings: ThresholdSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; decisions in the order in which Pulsar would execute them."""
        order = concurrent_hash_map_order([broker.broker for broker in view.brokers])
        # Read in the view's order, in which the figures are in memory, not in the map's order.
        usages = weighted_usages([broker.figures for broker in view.brokers], self.weights)[
            order
        ].tolist()
        brokers = tuple(view.brokers[index] for index in order.tolist())
        judged = self._advance(brokers, usages, memory)
        if judged.mean == 0:
            return Shedding((), (no_load(view.cluster),), judged.memory)
        ties = JavaTies(view)
        decisions, skips = self._main_pass(judged, ties)
        if not decisions and self.settings.lower_boundary:
            judged = self._advance(brokers, usages, judged.memory)
            decisions, more = self._lower_pass(judged, ties)
            skips = revised(skips, decisions, more)
        ordered, memory = as_executed(decisions, judged.memory, "threshold-result")
        return Shedding(ordered, gathered(skips), memory)

    def _advance(
        self, brokers: tuple[BrokerLoad, ...], usages: Sequence[float], memory: Memory
    ) -> _JavaJudged:
        weight, averages = self.settings.history, list[float]()
        for broker, usage in zip(brokers, usages, strict=True):
            kept = memory.brokers.get(broker.broker)
            old = None if kept is None else kept.ewma
            averages.append(usage if old is None else old * weight + (1 - weight) * usage)
        remembered = with_ewmas(
            memory,
            {broker.broker: average for broker, average in zip(brokers, averages, strict=True)},
        )
        return _JavaJudged(
            brokers, tuple(averages), ordered_sum(averages) / max(1, len(averages)), remembered
        )

    def _main_pass(self, judged: _JavaJudged, ties: JavaTies) -> tuple[list[Decision], list[Skip]]:
        mean, threshold = judged.mean, self.settings.threshold_percent / 100.0
        is_below = np.array(judged.ewmas) < mean + threshold
        below = np.flatnonzero(is_below).tolist()
        names, averages = (
            [judged.brokers[index].broker for index in below],
            [judged.ewmas[index] for index in below],
        )
        decisions, skips = list[Decision](), below_threshold(names, averages, mean, self.settings)
        for index in np.flatnonzero(~is_below).tolist():
            broker, ewma = judged.brokers[index], judged.ewmas[index]
            minimum = broker.figures.traffic.msg_throughput * (ewma - mean - threshold + MARGIN)
            if minimum < self.settings.min_throughput_mib * MIB:
                skips.append(too_little_traffic(broker.broker, minimum, self.settings))
                continue
            leaving, staying = relieve_as_java(
                broker, above_average(ewma, mean, minimum, self.settings), ties
            )
            decisions += leaving
            skips += staying
        return decisions, skips

    def _lower_pass(self, judged: _JavaJudged, ties: JavaTies) -> tuple[list[Decision], list[Skip]]:
        threshold = self.settings.threshold_percent / 100.0
        bound = judged.mean - threshold
        fullest, highest = None, bound
        for broker, ewma in zip(judged.brokers, judged.ewmas, strict=True):
            if ewma > highest and broker.figures.bundle_count > 1:
                fullest, highest = broker, ewma
        if fullest is None or not any(ewma < bound for ewma in judged.ewmas):
            return [], [none_below(ties.view.cluster, judged.mean, self.settings)]
        minimum = fullest.figures.traffic.msg_throughput * threshold * LOWER_MARGIN
        if self.settings.min_throughput_mib * MIB > minimum:
            return [], [too_little_traffic(fullest.broker, minimum, self.settings)]
        return relieve_as_java(
            fullest, lower_boundary(highest, judged.mean, minimum, self.settings), ties
        )

"""OverloadShedder exactly as Pulsar 4.2.4 runs it: order of brokers, ties, and at least one bundle
whatever it carries.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.OverloadShedder`. Memory: the size of
the result multimap's table. The repaired rule is in `fixed`.
"""

from dataclasses import dataclass

from strategies.cluster.model import ClusterView, Decision
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import unweighted_usage, weighted_usages
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.settings import Weights
from strategies.shedding.bundles_to_shed import MARGIN, as_executed, relieve_as_java
from strategies.shedding.candidates import JavaTies
from strategies.shedding.contract import Shedding, Usage, largest_weighted_resource
from strategies.shedding.overload.reason_texts import not_overloaded, overloaded
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.reason_texts import gathered


@dataclass(frozen=True)
class ParityOverloadShedder:
    """Sheds from brokers whose newest usage is at least the threshold."""

    settings: OverloadSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; decisions in the order in which Pulsar would execute them."""
        usages, threshold = self._usages(view), self.settings.threshold_percent / 100.0
        cool = [index for index, usage in enumerate(usages) if usage < threshold]
        skips = not_overloaded(
            [view.brokers[index].broker for index in cool],
            [usages[index] for index in cool],
            self.settings,
        )
        hot = [index for index, usage in enumerate(usages) if not usage < threshold]
        ties, decisions = JavaTies(view), list[Decision]()
        for index in _in_map_order(hot, view):
            broker, usage = view.brokers[index], usages[index]
            minimum = broker.figures.traffic.msg_throughput * (usage - threshold + MARGIN)
            leaving, staying = relieve_as_java(
                broker, overloaded(usage, minimum, self.settings), ties
            )
            decisions += leaving
            skips += staying
        ordered, memory = as_executed(decisions, memory, "overload-result")
        return Shedding(ordered, gathered(skips), memory)

    def _usages(self, view: ClusterView) -> list[float]:
        if self.settings.pulsar_version < "4.0":
            return [unweighted_usage(broker.figures) for broker in view.brokers]
        usages: list[float] = weighted_usages(
            [broker.figures for broker in view.brokers], self.weights
        ).tolist()
        return usages


def parity_usage(settings: OverloadSettings, weights: Weights) -> Usage:
    """Largest weighted resource (fraction); up to Pulsar 3 the largest without weights."""
    if settings.pulsar_version < "4.0":
        return unweighted_usage
    return largest_weighted_resource(settings, weights)


def _in_map_order(positions: list[int], view: ClusterView) -> list[int]:
    """These positions in the order of Java's map of all brokers, computed only for two or more."""
    if len(positions) < 2:
        return positions
    wanted = frozenset(positions)
    return [
        index
        for index in concurrent_hash_map_order([broker.broker for broker in view.brokers]).tolist()
        if index in wanted
    ]

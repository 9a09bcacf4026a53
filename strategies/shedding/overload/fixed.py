"""OverloadShedder with its known defects repaired: overloaded brokers shed their heaviest bundles
while another can take them.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.OverloadShedder` of Pulsar 4.2.4;
what is repaired, and why, is in docs/decisions. It has no memory. `parity` is the rule exactly as
in Java.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite

from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import usages_by_name
from strategies.settings import Weights
from strategies.shedding.bundles_to_shed import MARGIN, Room, no_taker, relieve
from strategies.shedding.contract import Shedding
from strategies.shedding.overload.reason_texts import not_overloaded, nothing_to_shed, overloaded
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.reason_texts import comparable, gathered


@dataclass(frozen=True)
class OverloadShedder:
    """Sheds from brokers whose newest usage is at least the threshold, as long as another one is
    below it.
    """

    settings: OverloadSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; the fullest broker first. The order of brokers and bundles in the view does
        not matter.
        """
        brokers, usages = usages_by_name(view.brokers, self.weights)
        at, skips = comparable(brokers, usages)
        judged = [(brokers[position], float(usages[position])) for position in at.tolist()]
        judged.sort(key=lambda one: -one[1])
        threshold = self.settings.threshold_percent / 100
        cool = [(broker, usage) for broker, usage in judged if usage < threshold]
        lower = [usage for _, usage in cool]
        skips += not_overloaded([broker.broker for broker, _ in cool], lower, self.settings)
        lowest = min(lower, default=None)
        decisions: list[Decision] = []
        for broker, usage in judged[: len(judged) - len(cool)]:
            taken = {decision.bundle for decision in decisions}
            leaving, staying = self._relieve(broker, Room(usage, lowest), view, taken)
            decisions += leaving
            skips += staying
        return Shedding(tuple(decisions), gathered(skips), memory)

    def _relieve(
        self, broker: BrokerLoad, room: Room, view: ClusterView, taken: Collection[str]
    ) -> tuple[list[Decision], list[Skip]]:
        minimum = broker.figures.traffic.msg_throughput * (
            room.usage - self.settings.threshold_percent / 100 + MARGIN
        )
        if not minimum > 0 or not isfinite(minimum):
            return [], [nothing_to_shed(broker.broker, room.usage, minimum)]
        if room.lowest is None:
            return [], [no_taker(broker.broker, room.usage)]
        return relieve(broker, room, overloaded(room.usage, minimum, self.settings), view, taken)

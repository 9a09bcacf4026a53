"""OverloadShedder with its known defects repaired: overloaded brokers shed their heaviest bundles
while another can take them.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.OverloadShedder` of Pulsar 4.2.4;
what is repaired, and why, is in docs/decisions. It has no memory. `parity` is the rule exactly as
in Java.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite

from strategies.cluster.memory import Memory
from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Skip
from strategies.figures.usage import usages_by_name
from strategies.settings import Weights
from strategies.shedding.contract import Shedding
from strategies.shedding.overload.settings import (
    OverloadSettings,
    not_overloaded,
    nothing_to_shed,
    overloaded,
)
from strategies.shedding.reason_texts import gathered, settling, unusable
from strategies.shedding.relief import MARGIN, Room, no_taker, relieve


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
        judged, skips = self._judge(view)
        threshold = self.settings.threshold_percent / 100
        cool = [(usage, broker) for usage, broker in judged if usage < threshold]
        skips += not_overloaded(
            [broker.broker for _, broker in cool], [usage for usage, _ in cool], self.settings
        )
        lowest = min((usage for usage, _ in cool), default=None)
        decisions: list[Decision] = []
        for usage, broker in judged[: len(judged) - len(cool)]:
            taken = {decision.bundle for decision in decisions}
            leaving, staying = self._relieve(broker, Room(usage, lowest), view, taken)
            decisions += leaving
            skips += staying
        return Shedding(tuple(decisions), gathered(skips), memory)

    def _judge(self, view: ClusterView) -> tuple[list[tuple[float, BrokerLoad]], list[Skip]]:
        """Usage and broker, fullest first, of the brokers with valid figures."""
        brokers, usages = usages_by_name(view.brokers, self.weights)
        lost, waiting, judged = list[str](), list[str](), list[tuple[float, BrokerLoad]]()
        for broker, usage in zip(brokers, usages.tolist(), strict=True):
            if not isfinite(usage):
                lost.append(broker.broker)
            elif broker.settling:
                waiting.append(broker.broker)
            else:
                judged.append((usage, broker))
        judged.sort(key=lambda one: -one[0])
        return judged, [*unusable(lost), *settling(waiting)]

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

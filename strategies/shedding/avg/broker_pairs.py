"""AvgShedder's pairs of brokers, the same in both modes: who is compared with whom, the hits of a
pair, and how much of which traffic it moves.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` of Pulsar 4.2.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.reason_texts import Metric


@dataclass(frozen=True, slots=True)
class BrokerPair:
    """Two brokers that are far apart: `under` has the lower score, `over` the higher one."""

    under: BrokerLoad
    over: BrokerLoad
    under_score: float
    over_score: float

    @property
    def difference(self) -> float:
        return self.over_score - self.under_score


@dataclass(frozen=True)
class Ranking:
    """Brokers by score, lowest first, paired from both ends. Pair 0 is the furthest apart; a single
    middle broker is paired with itself.
    """

    brokers: Sequence[BrokerLoad]
    scores: Floats

    @cached_property
    def differences(self) -> Floats:
        """float64[pairs]: `BrokerPair.difference` of every pair."""
        half = (len(self.brokers) + 1) // 2
        with np.errstate(all="ignore"):
            return self.scores[::-1][:half] - self.scores[:half]

    def pair(self, position: int) -> BrokerPair:
        """The pair at this position; 0 is the outermost pair."""
        opposite = len(self.brokers) - 1 - position
        return BrokerPair(
            self.brokers[position],
            self.brokers[opposite],
            float(self.scores[position]),
            float(self.scores[opposite]),
        )

    def names(self, positions: Sequence[int]) -> list[str]:
        """Both brokers of these pairs, the one with the lower score first."""
        last = len(self.brokers) - 1
        return [
            self.brokers[end].broker
            for position in positions
            for end in (position, last - position)
        ]


@dataclass(frozen=True, slots=True)
class Hits:
    """Hit counts of a pair: of each threshold, the larger count of the two brokers."""

    high: int
    low: int

    def fires(self, settings: AvgSettings) -> bool:
        return self.high >= settings.hit_count_high or self.low >= settings.hit_count_low

    def code(self, settings: AvgSettings) -> str:
        """Reason code of the count that was reached."""
        return "far-apart" if self.high >= settings.hit_count_high else "apart-for-long"


@dataclass
class HitCounters:
    """Hit counts by broker during a round: Java's two hit maps."""

    high: dict[str, int]
    low: dict[str, int]

    def forget(self, *brokers: str) -> None:
        for broker in brokers:
            self.high.pop(broker, None)
            self.low.pop(broker, None)

    def hit(self, pair: BrokerPair, urgent: bool) -> None:
        """Counts a hit of a pair, as in Java."""
        for broker in (pair.under.broker, pair.over.broker):
            self.low[broker] = self.low.get(broker, 0) + 1
            if urgent:
                self.high[broker] = self.high.get(broker, 0) + 1
            else:
                self.high.pop(broker, None)

    def hits_of(self, pair: BrokerPair) -> Hits:
        """The hits of a pair."""
        names = pair.under.broker, pair.over.broker
        return Hits(
            max(self.high.get(name, 0) for name in names),
            max(self.low.get(name, 0) for name in names),
        )

    def look_up(self, pair: BrokerPair) -> Hits:
        """The hits of a pair. As in Java, each lookup creates a zero entry, and lookups after a
        positive result are skipped.
        """
        under, over = pair.under.broker, pair.over.broker
        high = max(self.high.setdefault(under, 0), self.high.setdefault(over, 0))
        low = max(self.low.setdefault(under, 0), self.low.setdefault(over, 0))
        return Hits(high, low)


@dataclass(frozen=True, slots=True)
class Need:
    """Amount to move from one broker of a pair to the other, and its unit; `share`: its part of the
    difference.
    """

    metric: Metric
    amount: float
    share: float


def need_of(pair: BrokerPair, settings: AvgSettings) -> Need | None:
    """A part of the difference in message rate or, where that is small, in throughput; None when
    both are.
    """
    over, under = pair.over.figures.traffic, pair.under.figures.traffic
    rate = (over.msg_rate - under.msg_rate) * settings.max_unload
    throughput = (over.msg_throughput - under.msg_throughput) * settings.max_unload
    if rate > settings.min_msg_rate:
        return Need("msg_rate", rate, settings.max_unload)
    if throughput > settings.min_throughput:
        return Need("msg_throughput", throughput, settings.max_unload)
    return None

"""LeastResourceUsageWithWeight of the extensible load manager: as the modular one, but with the
smoothed usage of shedding.

Source of the rule:
`org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight` of Pulsar
4.2.4. It remembers nothing of its own: `BrokerMemory.ewma` is the `weightedMaxEMA` of a broker's
load data, None for a broker without such data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strategies.java.hash_order import hash_map_order
from strategies.model import Memory
from strategies.placement.contract import Candidate, Placement, Request, unplaced
from strategies.placement.least_resource_usage import LeastResourceUsageSettings, answer, by_level
from strategies.placement.levels import levels


@dataclass(frozen=True)
class ParityExtensibleLeastResourceUsage:
    """The rule exactly as in Java: if no broker is well below the mean, it draws from all
    candidates, even those of unknown load.
    """

    settings: LeastResourceUsageSettings

    def open_round(self, brokers: Mapping[str, Candidate], memory: Memory) -> Memory:
        """Returns the memory unchanged."""
        return memory

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates well below the mean of those with load data."""
        names = list(request.candidates)
        if not names:
            return unplaced(memory)
        known, usages = _smoothed(memory), dict[str, float]()
        total = 0.0
        for position in hash_map_order(names)[0].tolist():
            usage = known.get(names[position])
            if usage is not None:
                usages[names[position]] = usage
                total += usage
        mean = total / len(usages) if usages else 0.0
        best = sorted(
            broker
            for broker, usage in usages.items()
            if usage + self.settings.difference_percent / 100.0 <= mean
        )
        return answer(best, sorted(names), mean, memory, request.seed)


@dataclass(frozen=True)
class ExtensibleLeastResourceUsage:
    """The rule with the round's moves counted; without a broker well below the mean, the least used
    one.
    """

    settings: LeastResourceUsageSettings

    def open_round(self, brokers: Mapping[str, Candidate], memory: Memory) -> Memory:
        """Returns the memory unchanged."""
        return memory

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates well below the mean, or the lowest; a broker without smoothed
        usage counts with its newest usage.
        """
        return by_level(levels(request, _smoothed(memory)), self.settings, memory, request)


def _smoothed(memory: Memory) -> dict[str, float]:
    return {broker: kept.ewma for broker, kept in memory.brokers.items() if kept.ewma is not None}

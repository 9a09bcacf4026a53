"""LeastResourceUsageWithWeight of the extensible load manager: brokers whose usage, averaged by
shedding, is well below the mean of all candidates.

Source of the rule: `org.apache.pulsar.broker.loadbalance.extensions.strategy`. It uses the smoothed
usage of shedding: `BrokerMemory.ewma` is the `weightedMaxEMA` of a broker's load data, None for a
broker without such data.
"""

from dataclasses import dataclass
from operator import attrgetter

from strategies.cluster.strategy_memory import Memory
from strategies.java.hash_order import hash_map_order
from strategies.ordered_sum import ordered_sum
from strategies.placement.compared_levels_and_draw import levels
from strategies.placement.contract import Placement, PlacementStrategy, Request, unplaced
from strategies.placement.least_resource_usage import (
    LeastResourceUsageSettings,
    answer,
    by_level,
)
from strategies.shedding.broker_memory import kept_of


@dataclass(frozen=True)
class ParityExtensibleLeastResourceUsage:
    """The rule exactly as in Java: if no broker is well below the mean, it draws from all
    candidates, even those of unknown load.
    """

    settings: LeastResourceUsageSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates well below the mean of those with load data."""
        names = list(request.candidates)
        if not names:
            return unplaced(memory)
        known = kept_of(memory, attrgetter("ewma"))
        in_order = (names[position] for position in hash_map_order(names)[0].tolist())
        usages = {name: known[name] for name in in_order if name in known}
        mean = ordered_sum(usages.values()) / max(1, len(usages))
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

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates well below the mean, or the lowest; a broker without smoothed
        usage counts with its newest usage.
        """
        return by_level(
            levels(request, kept_of(memory, attrgetter("ewma"))), self.settings, memory, request
        )


ENTRY = PlacementStrategy(
    "least_resource_usage_extensible",
    "org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight",
    "The same on the averages that the extensible load manager keeps.",
    LeastResourceUsageSettings,
    ExtensibleLeastResourceUsage,
    ParityExtensibleLeastResourceUsage,
    remembers=True,
)

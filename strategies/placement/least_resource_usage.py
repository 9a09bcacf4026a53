"""LeastResourceUsageWithWeight: brokers whose usage, averaged over time, is well below the mean of
all candidates.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight` of
Pulsar 4.2.4. It remembers a smoothed usage per broker. Java advances it with every bundle that it
places; the repaired rule advances it once per round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter
from typing import Annotated

from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.java.hash_order import hash_map_order
from strategies.ordered_sum import ordered_sum
from strategies.placement.compared_levels_and_draw import draw, levels, mean_of, well_below
from strategies.placement.contract import (
    Candidate,
    Placement,
    PlacementStrategy,
    Request,
    unknown_broker,
    unplaced,
    without_figures,
)
from strategies.settings import Setting
from strategies.shedding.broker_memory import kept_of


@dataclass(frozen=True, slots=True)
class LeastResourceUsageSettings:
    """Settings of LeastResourceUsageWithWeight of either load manager, with Pulsar's defaults."""

    history: Annotated[
        float,
        Setting(
            "How much the past counts in a broker's smoothed usage",
            "fraction",
            "loadBalancerHistoryResourcePercentage",
            ge=0,
            le=1,
        ),
    ] = 0.9
    difference_percent: Annotated[
        float,
        Setting(
            "How far below the mean a broker must be to be preferred",
            "points",
            "loadBalancerAverageResourceUsageDifferenceThresholdPercentage",
            ge=0,
            le=100,
        ),
    ] = 10.0


@dataclass(frozen=True)
class ParityLeastResourceUsage:
    """The rule exactly as in Java: every lookup adds a sample, and earlier placements do not
    count.
    """

    settings: LeastResourceUsageSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Advances the history of all candidates, in Java's order, then compares it with its
        mean.
        """
        names = list(request.candidates)
        if not names:
            return unplaced(memory)
        before, after = smoothed(memory), dict[str, float]()
        for position in hash_map_order(names)[0].tolist():
            candidate = request.candidates[names[position]]
            if candidate is None:
                return unknown_broker(with_smoothed(memory, after), names[position])
            after[names[position]] = _advanced(
                candidate, before.get(names[position]), self.settings.history
            )
        mean = ordered_sum(after.values()) / len(names)
        difference = self.settings.difference_percent / 100.0
        best = sorted(broker for broker, usage in after.items() if usage + difference <= mean)
        return answer(best, sorted(after), mean, with_smoothed(memory, after), request.seed)


@dataclass(frozen=True)
class LeastResourceUsage:
    """The rule with one sample per round and the round's moves counted; if no broker is well below
    the mean, the least used one.
    """

    settings: LeastResourceUsageSettings

    def open_round(self, brokers: Mapping[str, Candidate], memory: Memory) -> Memory:
        """Adds the newest usage of every broker that has new figures to its history."""
        before, after = smoothed(memory), {}
        for name, broker in brokers.items():
            known = before.get(name)
            if broker.load.fresh or known is None:
                advanced = _advanced(broker, known, self.settings.history)
                if isfinite(advanced):
                    after[name] = advanced
        return with_smoothed(memory, after)

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates well below the mean of all or, without any, from the
        lowest.
        """
        return by_level(levels(request, smoothed(memory)), self.settings, memory, request)


def by_level(
    found: dict[str, float], settings: LeastResourceUsageSettings, memory: Memory, request: Request
) -> Placement:
    """The choice of the repaired rule from expected levels, for both load managers."""
    if not found:
        return without_figures(request, memory)
    best = well_below(found, settings.difference_percent / 100.0)
    chosen = draw(best, request.seed)
    mean = mean_of(found)
    alike = f", as {len(best) - 1} others" if len(best) > 1 else ""
    text = (
        f"is at {100 * found[chosen]:.1f} % with all moves counted, the mean of the candidates at "
        f"{100 * mean:.1f} %{alike}"
    )
    return Placement(
        best, chosen, memory, "least-used", text, {"level": found[chosen], "mean": mean}
    )


def smoothed(memory: Memory) -> dict[str, float]:
    """Broker → smoothed usage (fraction); no entry for a broker without one."""
    return kept_of(memory, attrgetter("placement_ewma"))


def with_smoothed(memory: Memory, usages: Mapping[str, float]) -> Memory:
    """Memory with these usages; brokers that are not named keep theirs."""
    changed = {
        broker: replace(memory.brokers.get(broker, NO_MEMORY), placement_ewma=usage)
        for broker, usage in usages.items()
    }
    return replace(memory, brokers={**memory.brokers, **changed}) if changed else memory


def answer(
    best: Sequence[str], candidates: Sequence[str], mean: float, memory: Memory, seed: str
) -> Placement:
    """The choice as in Java: from the brokers well below the mean or, without any, from all
    candidates.
    """
    evidence = {"mean": mean}
    if best:
        text = f"is well below the mean usage of {100 * mean:.1f} %, drawn from {len(best)}"
        return Placement(tuple(best), draw(best, seed), memory, "well-below-mean", text, evidence)
    text = (
        f"was drawn from all {len(candidates)} candidates, because none is well below the mean "
        f"usage of {100 * mean:.1f} %"
    )
    return Placement(
        tuple(candidates), draw(candidates, seed), memory, "nobody-below-mean", text, evidence
    )


def _advanced(broker: Candidate, before: float | None, history: float) -> float:
    """The smoothed usage after one more sample; for an idle broker it starts again."""
    figures = broker.load.figures
    idle = figures.bundle_count == 0 or (
        figures.traffic.msg_rate_in == 0 and figures.traffic.msg_rate_out == 0
    )
    return (
        broker.usage if before is None or idle else history * before + (1 - history) * broker.usage
    )


ENTRY = PlacementStrategy(
    "least_resource_usage",
    "org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight",
    "A broker whose usage, averaged over time, is well below the mean.",
    LeastResourceUsageSettings,
    LeastResourceUsage,
    ParityLeastResourceUsage,
    remembers=True,
)

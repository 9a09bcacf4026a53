"""Levels of the candidates for a bundle, with earlier moves of the round counted: shared by the
repaired placements. And the placement for bundles of draining brokers where the strategy has none.

A level is a fraction (1.0 = 100 %): the usage of a broker, plus the effect of moves that its
figures do not show yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isfinite

from strategies.cluster.memory import Memory
from strategies.placement.contract import Placement, Request, draw, unplaced, without_figures

#: Usages are 32-bit floats in Pulsar: levels closer than this are equal, so that 30.000002 % is 30
#: %.
TOLERANCE = 1e-6


def levels(request: Request, history: Mapping[str, float]) -> dict[str, float]:
    """Broker → level, by name; no entry for brokers without finite figures. `history`: broker →
    smoothed usage, if any.
    """
    found = {}
    for broker in sorted(request.candidates):
        candidate = request.candidates[broker]
        if candidate is not None:
            level = history.get(broker, candidate.usage) + (candidate.expected - candidate.usage)
            if isfinite(level):
                found[broker] = level
    return found


def well_below(found: Mapping[str, float], difference: float) -> tuple[str, ...]:
    """Brokers at least `difference` below the mean level; without any, those at the lowest
    level.
    """
    mean = mean_of(found)
    best = tuple(
        broker for broker, level in found.items() if level + difference <= mean + TOLERANCE
    )
    return best or lowest(found)


def mean_of(found: Mapping[str, float]) -> float:
    """Mean level, exact whatever the order; 0 for none."""
    return fsum(found.values()) / len(found) if found else 0.0


def lowest(found: Mapping[str, float], within: float = TOLERANCE) -> tuple[str, ...]:
    """Brokers whose level is at most `within` above the lowest one."""
    least = min(found.values(), default=0.0)
    return tuple(broker for broker, level in found.items() if level <= least + within)


def fewest_arrivals(request: Request, brokers: Sequence[str]) -> tuple[str, ...]:
    """Those of these candidates that have the fewest bundles on their way."""
    arrivals = {
        broker: len(candidate.arriving)
        for broker in brokers
        if (candidate := request.candidates[broker]) is not None
    }
    fewest = min(arrivals.values())
    return tuple(broker for broker in brokers if arrivals[broker] == fewest)


class EmptiestBroker:
    """Takes the broker of the lowest usage, moves counted; of equal ones, that with the fewest
    bundles on their way.
    """

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses among all candidates with finite figures."""
        if not request.candidates:
            return unplaced(memory)
        found = levels(request, {})
        if not found:
            return without_figures(memory)
        best = fewest_arrivals(request, lowest(found))
        chosen = draw(best, request.seed)
        text = f"is the emptiest broker that may take it, at {100 * found[chosen]:.1f} %"
        return Placement(
            best, chosen, memory, "emptiest", text, {"destination_usage": found[chosen]}
        )

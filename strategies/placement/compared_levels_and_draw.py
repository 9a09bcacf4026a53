"""The levels of candidates that repaired placements compare, and the draw among those that are
equally good.

A level is a fraction (1.0 = 100 %): the usage of a broker, plus the effect of moves of the round
that its figures do not show yet.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import fsum, isfinite

from strategies.placement.contract import Request

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


def draw(best: Sequence[str], seed: str) -> str:
    """Draws one of these brokers, the same one for the same seed, whatever their order. Over all
    seeds, each has the same probability.
    """
    number = int.from_bytes(
        blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )
    return sorted(best)[number % len(best)]

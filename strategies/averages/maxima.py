"""The maxima of a broker's resources in the extensible load manager, which computes with doubles after the percentage.

Source of the rule: `BrokerLoadData` with its helper `max` of Pulsar 4.2.4. NaN never wins; heap memory counts
in the weighted maximum only. The modular manager's are `usage.weighted_usage` and `usage.unweighted_usage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from strategies.model import Figures
from strategies.settings import Weights
from strategies.usage import percent


def extensible_maximum(figures: Figures) -> float:
    """Fullest of CPU, direct memory and bandwidth as a fraction: 90 % is 0.9, not the 0.8999999761581421 of the modular manager."""
    return _largest(_percentages(figures)) / 100


def extensible_weighted(figures: Figures, weights: Weights, memory_weight: float) -> float:
    """Largest weighted resource as a fraction; unlike the modular manager's it has heap memory in it."""
    weighted = (
        percent(figures.cpu) * weights.cpu,
        percent(figures.memory) * memory_weight,
        percent(figures.direct_memory) * weights.direct_memory,
        percent(figures.bandwidth_in) * weights.bandwidth_in,
        percent(figures.bandwidth_out) * weights.bandwidth_out,
    )
    return _largest(weighted) / 100


def _percentages(figures: Figures) -> tuple[float, ...]:
    return percent(figures.cpu), percent(figures.direct_memory), percent(figures.bandwidth_in), percent(figures.bandwidth_out)


def _largest(values: Iterable[float]) -> float:
    highest = -inf
    for value in values:
        highest = max(highest, value)
    return highest

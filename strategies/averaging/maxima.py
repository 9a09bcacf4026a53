"""The unweighted maxima of a broker's resources, which both load managers report beside the weighted one.

Source of the rules: `LocalBrokerData.getMaxResourceUsage` (32-bit floats to the end) and `BrokerLoadData` with its
`max` (doubles after the percentage) of Pulsar 4.2.4. NaN never wins; heap memory counts only in the extensible weighted one.
The modular manager's weighted maximum is `usage.weighted_usage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_float
from math import inf

from strategies.model import Figures
from strategies.settings import Weights
from strategies.usage import percent


def modular_maximum(figures: Figures) -> float:
    """Fullest of CPU, direct memory and bandwidth as a fraction, as the modular manager computes it: 90 % is 0.8999999761581421."""
    return c_float(_largest(_percentages(figures)) / 100).value


def extensible_maximum(figures: Figures) -> float:
    """The same as the extensible manager computes it: 90 % is 0.9."""
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

"""The smoothed load of a broker in the extensible load manager.

Source of the rule: `BrokerLoadData` of Pulsar 4.2.4. A broker that has not measured itself yet
looks completely full; its first sample counts alone, every later one with the weight 1 − history.
It computes with doubles after the percentage. NaN never wins a maximum; heap memory counts in the
weighted one only. The modular manager's maxima are `usage.weighted_usage` and
`usage.unweighted_usage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated

from strategies.model import Figures
from strategies.settings import Mode, Setting, Weights
from strategies.usage import percent


@dataclass(frozen=True, slots=True)
class SmoothingSettings:
    """How the extensible manager's averages follow the samples."""

    history: Annotated[
        float,
        Setting(
            "Weight of the past in a broker's smoothed load",
            pulsar="loadBalancerHistoryResourcePercentage",
            ge=0,
            le=1,
        ),
    ] = 0.9
    memory_weight: Annotated[
        float,
        Setting(
            "Weight of heap memory in a broker's load",
            pulsar="loadBalancerMemoryResourceWeight",
            ge=0,
            le=1000,
        ),
    ] = 0.0


@dataclass(frozen=True, slots=True)
class SmoothedLoad:
    """What is remembered. `maximum`: newest unweighted usage; `weighted`, `throughput`: averages
    (fraction, bytes/s in + out).
    """

    maximum: float = 1.0
    weighted: float = 1.0
    throughput: float = 0.0
    sampled: bool = False

    def after(
        self, figures: Figures, weights: Weights, settings: SmoothingSettings, mode: Mode
    ) -> SmoothedLoad:
        """The load after one more sample. In fixed mode a sample that is not finite changes
        nothing.
        """
        weighted, throughput = (
            extensible_weighted(figures, weights, settings.memory_weight),
            figures.traffic.msg_throughput,
        )
        maximum = extensible_maximum(figures)
        if mode == "fixed" and not (
            isfinite(weighted) and isfinite(throughput) and isfinite(maximum)
        ):
            return self
        if self.sampled:
            history = settings.history
            weighted = self.weighted * history + (1 - history) * weighted
            throughput = self.throughput * history + (1 - history) * throughput
        return SmoothedLoad(maximum, weighted, throughput, sampled=True)


def extensible_maximum(figures: Figures) -> float:
    """Fullest of CPU, direct memory and bandwidth as a fraction: 90 % is 0.9, not the
    0.8999999761581421 of the modular manager.
    """
    return _largest(_percentages(figures)) / 100


def extensible_weighted(figures: Figures, weights: Weights, memory_weight: float) -> float:
    """Largest weighted resource as a fraction; unlike the modular manager's it has heap memory in
    it.
    """
    weighted = (
        percent(figures.cpu) * weights.cpu,
        percent(figures.memory) * memory_weight,
        percent(figures.direct_memory) * weights.direct_memory,
        percent(figures.bandwidth_in) * weights.bandwidth_in,
        percent(figures.bandwidth_out) * weights.bandwidth_out,
    )
    return _largest(weighted) / 100


def _percentages(figures: Figures) -> tuple[float, ...]:
    return (
        percent(figures.cpu),
        percent(figures.direct_memory),
        percent(figures.bandwidth_in),
        percent(figures.bandwidth_out),
    )


def _largest(values: Iterable[float]) -> float:
    return max(-inf, *values)

"""The smoothed load of a broker in the extensible load manager.

Source of the rule: `BrokerLoadData` of Pulsar 4.2.4. A broker that has not measured itself yet looks completely full; its first sample
counts alone, every later one with the weight 1 − history.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Annotated

from strategies.averages.maxima import extensible_maximum, extensible_weighted
from strategies.model import Figures
from strategies.settings import Mode, Setting, Weights


@dataclass(frozen=True, slots=True)
class SmoothingSettings:
    """How the extensible manager's averages follow the samples."""

    history: Annotated[
        float, Setting("Weight of the past in a broker's smoothed load", pulsar="loadBalancerHistoryResourcePercentage", ge=0, le=1)
    ] = 0.9
    memory_weight: Annotated[
        float, Setting("Weight of heap memory in a broker's load", pulsar="loadBalancerMemoryResourceWeight", ge=0, le=1000)
    ] = 0.0


@dataclass(frozen=True, slots=True)
class SmoothedLoad:
    """What is remembered. `maximum`: newest unweighted usage; `weighted`, `throughput`: averages (fraction, bytes/s in + out)."""

    maximum: float = 1.0
    weighted: float = 1.0
    throughput: float = 0.0
    sampled: bool = False

    def after(self, figures: Figures, weights: Weights, settings: SmoothingSettings, mode: Mode) -> SmoothedLoad:
        """The load after one more sample. In fixed mode a sample that is not finite changes nothing."""
        weighted, throughput = extensible_weighted(figures, weights, settings.memory_weight), figures.traffic.msg_throughput
        maximum = extensible_maximum(figures)
        if mode == "fixed" and not (isfinite(weighted) and isfinite(throughput) and isfinite(maximum)):
            return self
        if self.sampled:
            history = settings.history
            weighted = self.weighted * history + (1 - history) * weighted
            throughput = self.throughput * history + (1 - history) * throughput
        return SmoothedLoad(maximum, weighted, throughput, sampled=True)

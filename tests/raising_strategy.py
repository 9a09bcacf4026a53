"""A strategy with a mistake: it raises for one cluster, for a while."""

from dataclasses import dataclass, replace
from typing import Annotated

from strategies.cluster.model import ClusterView
from strategies.cluster.strategy_memory import Memory
from strategies.settings import Setting, Weights
from strategies.shedding.contract import Shedder, Shedding
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.threshold.settings import ThresholdSettings

_BASE = SHEDDERS["threshold"]


@dataclass(frozen=True, slots=True)
class RaisingSettings(ThresholdSettings):
    """`raises_for`: a cluster; `until_ms`: the time from which it is judged like all others."""

    raises_for: Annotated[str, Setting("Cluster whose rounds raise")] = ""
    until_ms: Annotated[int, Setting("Time from which they no longer do", "ms", ge=0)] = 0


@dataclass(frozen=True)
class RaisingShedder:
    """The ThresholdShedder, but for that cluster and time."""

    settings: RaisingSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        if view.cluster == self.settings.raises_for and view.now_ms < self.settings.until_ms:
            raise ZeroDivisionError(f"{object()} is no figure")
        return _inner(self.settings, self.weights).shed(view, memory)


def _inner(settings: RaisingSettings, weights: Weights) -> Shedder:
    return _BASE.fixed(settings, weights)


RAISING = replace(
    _BASE,
    name="raising",
    settings=RaisingSettings,
    fixed=RaisingShedder,
    parity=RaisingShedder,
    quiet=None,
)
WITH_RAISING = SHEDDERS.extended(RAISING)

"""When a replay ends unevenly enough that `--fail-on-imbalance` should say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from strategies.engine import EngineSettings
from strategies.model import Round
from strategies.shedding.registry import SHEDDERS


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A cluster whose last round saw a spread (points) above the limit (points)."""

    cluster: str
    spread: float
    limit: float


#: The setting of each strategy, in points, above which it would begin to move something.
_LIMITS: Mapping[str, str] = {"avg": "low_threshold", "threshold": "threshold_percent"}


def limit_of(settings: EngineSettings) -> float:
    """The spread of usage (max − min, in points) that the strategy is content with: any, where it judges by something else."""
    if settings.strategy not in _LIMITS:
        return inf
    chosen = settings.shedding if settings.shedding is not None else SHEDDERS[settings.strategy].settings()
    return float(getattr(chosen, _LIMITS[settings.strategy]))


def imbalance(last: Round, limit: float) -> Imbalance | None:
    """None when the round is even enough. The figures are those of the round, before the commands it gave."""
    spread = last.spread.range * 100
    return Imbalance(last.cluster, spread, limit) if spread > limit else None

"""When a cluster counts as balanced: the spread a strategy judges by, against that strategy's own threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strategies.engine import EngineSettings
from strategies.errors import SettingsError
from strategies.model import Round
from strategies.shedding.registry import SHEDDERS

Measure = Literal["max − min", "max − average"]


@dataclass(frozen=True, slots=True)
class Goal:
    """`threshold` in points (percent of usage); a spread below it gives the strategy nothing to do."""

    strategy: str
    summary: str
    measure: Measure
    threshold: float

    def spread(self, record: Round) -> float:
        """The spread of a round's usage figures in points."""
        usage = [100.0 * value for value in record.usage.values()]
        lower = min(usage) if self.measure == "max − min" else sum(usage) / len(usage)
        return max(usage) - lower

    def reached(self, record: Round) -> bool:
        return self.spread(record) < self.threshold


#: Strategy → what it compares, and the setting that holds its threshold.
_MEASURES: Mapping[str, tuple[Measure, str]] = {"avg": ("max − min", "low_threshold"), "threshold": ("max − average", "threshold_percent")}


def check_strategy(name: str) -> None:
    """Raises SettingsError for a strategy the demo cannot judge."""
    if name not in _MEASURES:
        raise SettingsError([f"--strategy: the demo knows {' and '.join(sorted(_MEASURES))}, not {name!r}"])


def goal_of(settings: EngineSettings) -> Goal:
    """The goal of a strategy under its settings. Raises SettingsError for a strategy the demo cannot judge."""
    check_strategy(settings.strategy)
    entry = SHEDDERS[settings.strategy]
    measure, key = _MEASURES[settings.strategy]
    chosen = entry.settings() if settings.shedding is None else settings.shedding
    return Goal(entry.pulsar_class.rpartition(".")[2], entry.summary, measure, float(getattr(chosen, key)))

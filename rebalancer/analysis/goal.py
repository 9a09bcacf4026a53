"""When a cluster counts as balanced: the figure a strategy judges a round by, against that strategy's own settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strategies.engine import EngineSettings
from strategies.model import Round
from strategies.shedding.registry import SHEDDERS


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a strategy compares (`figure`, in points), with what, and whether a figure is good. No limit: the round's record says `even`."""

    measure: str
    figure: Callable[[Round], float]
    key: str | None
    limit: Callable[[float], float] = float
    limit_is_good: bool = False
    name: str = "threshold"


@dataclass(frozen=True, slots=True)
class Goal:
    """`threshold` in points (percent of usage), None for a strategy that compares traffic in more ways than one."""

    strategy: str
    summary: str
    threshold: float | None
    rule: _Rule

    @property
    def measure(self) -> str:
        return self.rule.measure

    @property
    def text(self) -> str:
        """`spread (max − min of the brokers' usage) below the strategy's threshold of 15 points`"""
        if self.threshold is None:
            return "no two brokers whose traffic the strategy calls uneven"
        return f"spread ({self.measure}) {self._relation} the strategy's {self.rule.name} of {self.threshold:g} points"

    def spread(self, record: Round) -> float:
        """The spread of a round in points: the figures are those before the commands it gave."""
        return self.rule.figure(record)

    def reached(self, record: Round) -> bool:
        """Whether the round leaves the strategy nothing to do."""
        if self.threshold is None:
            return len(record.brokers) < 2 or any(skip.subject == "cluster" and skip.code == "even" for skip in record.skips)
        spread = self.spread(record)
        return spread <= self.threshold if self.rule.limit_is_good else spread < self.threshold

    def verdict(self, record: Round) -> str:
        """`below AvgShedder's threshold of 15`, after the name of a spread."""
        good = self.reached(record)
        if self.threshold is None:
            return f"which {self.strategy} {'calls' if good else 'does not call'} even"
        return f"{'' if good else 'which is not '}{self._relation} {self.strategy}'s {self.rule.name} of {self.threshold:g}"

    @property
    def _relation(self) -> str:
        return "within" if self.rule.limit_is_good else "below"


def goal_of(settings: EngineSettings) -> Goal:
    """The goal of a strategy under its settings."""
    entry, rule = SHEDDERS[settings.strategy], _RULES[settings.strategy]
    chosen: Any = entry.settings() if settings.shedding is None else settings.shedding
    threshold = None if rule.key is None else rule.limit(float(getattr(chosen, rule.key)))
    return Goal(entry.pulsar_class.rpartition(".")[2], entry.summary, threshold, rule)


def _above_average(record: Round) -> float:
    usage = [100.0 * value for value in record.usage.values()]
    return max(usage) - sum(usage) / len(usage) if usage else 0.0


_RULES: Mapping[str, _Rule] = {
    "avg": _Rule("max − min of the brokers' usage", lambda record: 100.0 * record.spread.range, "low_threshold"),
    "threshold": _Rule("max − average of the brokers' usage", _above_average, "threshold_percent"),
    "overload": _Rule("usage of the fullest broker", lambda record: 100.0 * max(record.usage.values(), default=0.0), "threshold_percent"),
    "uniform": _Rule(
        "how far the busiest broker's throughput is above the mean, in percent of it",
        lambda record: 100.0 * max(0.0, record.throughput_spread.max_over_mean - 1.0),
        None,
    ),
    "transfer": _Rule(
        "standard deviation of the brokers' usage",
        lambda record: 100.0 * record.spread.std,
        "target_std",
        limit=lambda fraction: 100.0 * fraction,
        limit_is_good=True,
        name="target",
    ),
}

"""The goal of a strategy: the figure by which it judges a round, and the limit in its settings
below which a cluster is balanced.
"""

from dataclasses import dataclass
from typing import Literal

from pulsar_rebalancer.lab.simulation.timeline import unjudged
from strategies.cluster.model import Round
from strategies.fold.engine import EngineSettings
from strategies.round.state_of_round import reason_of
from strategies.shedding.contract import GoalFigure


@dataclass(frozen=True, slots=True)
class Goal:
    """A strategy's goal. `threshold`: in points (percent of usage); None for a strategy that
    compares brokers in several ways. `balances`: what it compares.
    """

    strategy: str
    summary: str
    threshold: float | None
    rule: GoalFigure
    balances: Literal["usage", "traffic"]

    @property
    def text(self) -> str:
        """`spread (max − min of the brokers' usage) below the strategy's threshold of 15 points`"""
        if self.threshold is None:
            return f"no two brokers with {self.balances} that the strategy considers uneven"
        return (
            f"spread ({self.rule.measure}) {self._relation} the strategy's "
            f"{self.rule.limit_name} of {self.threshold:g} points"
        )

    def spread(self, record: Round) -> float:
        """The spread of a round in points, before its commands."""
        return self.rule.figure(record)

    def reached(self, record: Round) -> bool:
        """Whether the round meets the goal; without a judgement only a broker alone does."""
        if unjudged(record.skips) is not None:
            return len(record.brokers) == 1
        if self.threshold is None:
            return len(record.brokers) < 2 or any(
                skip.subject == "cluster" and skip.code == "even" for skip in record.skips
            )
        spread = self.spread(record)
        return spread <= self.threshold if self.rule.within else spread < self.threshold

    def verdict(self, record: Round) -> str:
        """`below AvgShedder's threshold of 15`, after the name of a spread."""
        waits, good = unjudged(record.skips), self.reached(record)
        if waits is not None:
            return f"which {self.strategy} cannot judge yet: {reason_of(waits)}"
        if self.threshold is None:
            return f"which {self.strategy} {'considers' if good else 'does not consider'} even"
        return (
            f"{'' if good else 'which is not '}{self._relation} {self.strategy}'s "
            f"{self.rule.limit_name} of {self.threshold:g}"
        )

    @property
    def _relation(self) -> str:
        return "within" if self.rule.within else "below"


def goal_of(settings: EngineSettings) -> Goal:
    """The goal of a strategy under its settings."""
    entry, rule = settings.entry, settings.entry.goal
    threshold = None if rule.key is None else rule.scale * float(getattr(settings.chosen, rule.key))
    return Goal(entry.java_class, entry.summary, threshold, rule, entry.balances)

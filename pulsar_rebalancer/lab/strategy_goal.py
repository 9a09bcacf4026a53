"""The goal of a strategy: the figure by which it judges a round, and the limit in its settings
below which a cluster is balanced.
"""

from dataclasses import dataclass

from pulsar_rebalancer.lab.simulation.timeline import unjudged
from strategies.cluster.model import Round
from strategies.fold.engine import EngineSettings
from strategies.round.state_of_round import reason_of
from strategies.shedding.contract import SheddingStrategy


@dataclass(frozen=True, slots=True)
class Goal:
    """A strategy's goal. `threshold`: in points (percent of usage); None for a strategy that
    compares brokers in several ways.
    """

    strategy: SheddingStrategy
    threshold: float | None

    @property
    def text(self) -> str:
        """`spread (max − min of the brokers' usage) below the strategy's threshold of 15 points`"""
        if self.threshold is None:
            return (
                f"no two brokers with {self.strategy.balances} that the strategy considers uneven"
            )
        return (
            f"spread ({self.strategy.goal.measure}) {self._relation} the strategy's "
            f"{self.strategy.goal.limit_name} of {self.threshold:g} points"
        )

    def spread(self, record: Round) -> float:
        """The spread of a round in points, before its commands."""
        return self.strategy.goal.figure(record)

    def reached(self, record: Round) -> bool:
        """Whether the round meets the goal; without a judgement only a broker alone does."""
        if unjudged(record.skips) is not None:
            return len(record.brokers) == 1
        if self.threshold is None:
            return len(record.brokers) < 2 or any(
                skip.subject == "cluster" and skip.code == "even" for skip in record.skips
            )
        spread = self.spread(record)
        return spread <= self.threshold if self.strategy.goal.within else spread < self.threshold

    def verdict(self, record: Round) -> str:
        """`below AvgShedder's threshold of 15`, after the name of a spread."""
        waits, good = unjudged(record.skips), self.reached(record)
        name = self.strategy.java_class
        if waits is not None:
            return f"which {name} cannot judge yet: {reason_of(waits)}"
        if self.threshold is None:
            return f"which {name} {'considers' if good else 'does not consider'} even"
        return (
            f"{'' if good else 'which is not '}{self._relation} {name}'s "
            f"{self.strategy.goal.limit_name} of {self.threshold:g}"
        )

    @property
    def _relation(self) -> str:
        return "within" if self.strategy.goal.within else "below"


def goal_of(settings: EngineSettings) -> Goal:
    """The goal of a strategy under its settings."""
    entry, rule = settings.entry, settings.entry.goal
    threshold = None if rule.key is None else rule.scale * float(getattr(settings.chosen, rule.key))
    return Goal(entry, threshold)

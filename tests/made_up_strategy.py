"""A strategy that Pulsar does not have: what a contributor puts into the `registry_entry.py` of a
folder of `strategies/shedding/`.
"""

from dataclasses import dataclass
from typing import Annotated

from strategies.cluster.model import ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usage
from strategies.settings import Setting, Weights
from strategies.shedding.contract import GoalFigure, Shedding, SheddingStrategy, usage_range
from strategies.states_and_advice_of_codes import NOTHING, Meaning


@dataclass(frozen=True, slots=True)
class HalvingSettings:
    """Settings of the halving shedder."""

    gap_percent: Annotated[
        float, Setting("Fullest and emptiest broker may be this far apart", "points", ge=1, le=100)
    ] = 10.0


@dataclass(frozen=True)
class HalvingShedder:
    """Every second bundle of the fullest broker goes to the emptiest while they are too far
    apart.
    """

    settings: HalvingSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round."""
        ranked = sorted(
            (weighted_usage(broker.figures, self.weights), broker.broker, broker)
            for broker in view.brokers
            if not broker.settling
        )
        if len(ranked) < 2 or 100 * (ranked[-1][0] - ranked[0][0]) < self.settings.gap_percent:
            text = "no two brokers are too far apart"
            return Shedding((), (Skip("cluster", (view.cluster,), "near-enough", text),), memory)
        emptiest, (_, source, fullest) = ranked[0][1], ranked[-1]
        leaving = [name for name in sorted(fullest.bundles.names)[::2] if name not in view.cooling]
        return Shedding(
            tuple(
                Decision(name, source, emptiest, "halved", "every second bundle goes")
                for name in leaving
            ),
            (),
            memory,
        )


ENTRY = SheddingStrategy(
    "halving",
    "Every second bundle of the fullest broker goes to the emptiest.",
    HalvingSettings,
    fixed=HalvingShedder,
    goal=GoalFigure("max − min of the brokers' usage", usage_range, "gap_percent"),
    tuning={"gap_percent": (5, 10, 20)},
    placement="round_robin",
    meanings=(Meaning("near-enough", "balanced", 1315, NOTHING),),
)

"""ThresholdShedder as an entry of the registry: goal, tuning, placement and reason codes."""

from strategies.cluster.model import Round
from strategies.ordered_sum import ordered_sum
from strategies.shedding.contract import GoalFigure, SheddingStrategy, StrategyMemory
from strategies.shedding.threshold.fixed import ThresholdShedder
from strategies.shedding.threshold.parity import ParityThresholdShedder
from strategies.shedding.threshold.quiet_rounds import quiet
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, NOTHING, Meaning


def above_mean(record: Round) -> float:
    """How far the fullest broker is above the mean usage, in points."""
    usage = [100.0 * value for value in record.balanced_usage.values()]
    return max(usage) - ordered_sum(usage) / len(usage) if usage else 0.0


def memory(settings: ThresholdSettings) -> StrategyMemory:
    """The averages of brokers' usage."""
    return StrategyMemory(weight=settings.history)


ENTRY = SheddingStrategy(
    "threshold",
    "Brokers too far above the mean usage, averaged over time, shed their heaviest bundles.",
    ThresholdSettings,
    fixed=ThresholdShedder,
    pulsar_class="org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
    parity=ParityThresholdShedder,
    goal=GoalFigure("max − average of the brokers' usage", above_mean, "threshold_percent"),
    tuning={
        "threshold_percent": (3, 5, 7.5, 10, 15, 20),
        "history": (0.0, 0.5, 0.7, 0.9, 0.95),
        "min_throughput_mib": (1, 10, 50),
    },
    published_placement="least_resource_usage",
    quiet=quiet,
    memory=memory,
    meanings=(
        Meaning("already-fell", "waiting", 710, NEXT_ROUNDS),
        Meaning("below-threshold", "balanced", 1320, NOTHING),
        Meaning("nobody-below", "balanced", 1340, NOTHING),
        Meaning("no-load", "balanced", 1350, NOTHING),
    ),
)

"""ThresholdShedder as an entry of the registry: goal, tuning, placement and reason codes, and the
rounds in which it decides nothing, which back-tests skip.
"""

from collections.abc import Sequence
from math import fsum

import numpy as np

from strategies.cluster.model import Round, Skip
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.ordered_sum import ordered_sum
from strategies.shedding.broker_memory import with_ewmas
from strategies.shedding.contract import (
    GoalFigure,
    QuietScreen,
    RoundColumns,
    SheddingStrategy,
    StrategyMemory,
)
from strategies.shedding.threshold.fixed import ThresholdShedder
from strategies.shedding.threshold.parity import ParityThresholdShedder
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, NOTHING, Meaning


def quiet(settings: ThresholdSettings) -> QuietScreen | None:
    """Finds rounds in which no broker is far above the mean, neither by its average nor by its
    newest usage; advances the averages.
    """
    if settings.lower_boundary:
        return None

    def screen(rounds: RoundColumns, memory: Memory) -> tuple[Sequence[tuple[Skip, ...]], Memory]:
        names = rounds.brokers
        weight, distance = settings.history, settings.threshold_percent / 100
        kept = [memory.brokers.get(name, NO_MEMORY).ewma for name in names]
        ewmas, count = np.array([np.nan if ewma is None else ewma for ewma in kept]), 0
        for usage, new in zip(rounds.usage, rounds.fresh, strict=True):
            unknown = np.isnan(ewmas)
            after = np.where(
                unknown, usage, np.where(new, ewmas * weight + (1 - weight) * usage, ewmas)
            )
            mean, mean_usage = fsum(after.tolist()) / len(after), fsum(usage.tolist()) / len(usage)
            if mean > 0 and bool(
                ((after >= mean + distance) & (usage >= mean_usage + distance)).any()
            ):
                break
            ewmas, count = after, count + 1
        if count:
            memory = with_ewmas(memory, dict(zip(names, ewmas.tolist(), strict=True)))
        return [()] * count, memory

    return screen


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

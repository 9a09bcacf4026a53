"""Finds the rounds in which ThresholdShedder decides nothing, which back-tests skip."""

from collections.abc import Sequence
from math import fsum

import numpy as np

from strategies.cluster.model import Skip
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.shedding.broker_memory import with_ewmas
from strategies.shedding.contract import QuietScreen, RoundColumns
from strategies.shedding.threshold.settings import ThresholdSettings


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

"""Rounds in which a strategy will certainly decide nothing, found for many rounds at once; what it remembers advances as if it had run.

Only back-tests ask. A strategy that is not known here is asked round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum

import numpy as np

from strategies.bundles.bundle_loads import Bools, Floats
from strategies.model import BrokerMemory, Memory
from strategies.shedding.contract import Shedder
from strategies.shedding.memory import with_ewmas
from strategies.shedding.overload.fixed import OverloadShedder
from strategies.shedding.threshold.fixed import ThresholdShedder

#: Of brokers by name, `usages`: float64[rounds, brokers], all finite; `fresh`: whether a figure is a new sample; what was remembered.
#: Answers how many rounds from the first on are quiet, and what is remembered after them.
QuietRounds = Callable[[Sequence[str], Floats, Bools, Memory], tuple[int, Memory]]
_NOTHING = BrokerMemory()


def quiet_rounds(shedder: Shedder) -> QuietRounds | None:
    """How to find quiet rounds of brokers of which none is settling; None for a strategy that has to be asked."""
    if isinstance(shedder, OverloadShedder):
        return _below(shedder.settings.threshold_percent / 100)
    if not isinstance(shedder, ThresholdShedder) or shedder.settings.lower_boundary:
        return None
    return _near_the_mean(shedder)


def _below(limit: float) -> QuietRounds:
    """Nobody is overloaded; nothing is remembered."""

    def overload(names: Sequence[str], usages: Floats, fresh: Bools, memory: Memory) -> tuple[int, Memory]:
        hot = ~(usages < limit).all(axis=1)
        return int(hot.argmax()) if hot.any() else len(usages), memory

    return overload


def _near_the_mean(rule: ThresholdShedder) -> QuietRounds:
    """Nobody is far above the mean, neither by average nor now; averages go on."""

    def threshold(names: Sequence[str], usages: Floats, fresh: Bools, memory: Memory) -> tuple[int, Memory]:
        weight, distance = rule.settings.history, rule.settings.threshold_percent / 100
        kept = [memory.brokers.get(name, _NOTHING).ewma for name in names]
        ewmas, count = np.array([np.nan if ewma is None else ewma for ewma in kept]), 0
        for usage, new in zip(usages, fresh, strict=True):
            unknown = np.isnan(ewmas)
            after = np.where(unknown, usage, np.where(new, ewmas * weight + (1 - weight) * usage, ewmas))
            mean, mean_usage = fsum(after.tolist()) / len(after), fsum(usage.tolist()) / len(usage)
            if mean > 0 and bool(((after >= mean + distance) & (usage >= mean_usage + distance)).any()):
                break
            ewmas, count = after, count + 1
        return count, with_ewmas(memory, dict(zip(names, ewmas.tolist(), strict=True))) if count else memory

    return threshold

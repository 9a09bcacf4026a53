"""Rounds in which a strategy will certainly decide nothing, found for many rounds at once; what it remembers advances as if it had run.

Only back-tests ask. A strategy that is not known here is asked round by round.
"""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

import numpy as np

from strategies.bundle_loads import Floats
from strategies.shedding.contract import Shedder
from strategies.shedding.overload import OverloadShedder
from strategies.shedding.threshold import ThresholdShedder

Bools = np.ndarray[tuple[int, int], np.dtype[np.bool_]]
#: `usages`: float64[rounds, brokers], all finite; `fresh`: whether a figure is a new sample; `ewmas`: float64[brokers], NaN for none.
#: Answers how many rounds from the first on are quiet, and the averages after them.
QuietRounds = Callable[[Floats, Bools, Floats], tuple[int, Floats]]


def quiet_rounds(shedder: Shedder) -> QuietRounds | None:
    """How to find quiet rounds of brokers of which none is settling; None for a strategy that has to be asked."""
    if isinstance(shedder, OverloadShedder):
        return _below(shedder.settings.threshold_percent / 100)
    if not isinstance(shedder, ThresholdShedder) or shedder.settings.lower_boundary:
        return None
    return _near_the_mean(shedder)


def _below(limit: float) -> QuietRounds:
    """Nobody is overloaded; nothing is remembered."""

    def overload(usages: Floats, fresh: Bools, ewmas: Floats) -> tuple[int, Floats]:
        hot = ~(usages < limit).all(axis=1)
        return int(hot.argmax()) if hot.any() else len(usages), ewmas

    return overload


def _near_the_mean(rule: ThresholdShedder) -> QuietRounds:
    """Nobody is far above the mean, neither by average nor now; averages go on."""

    def threshold(usages: Floats, fresh: Bools, ewmas: Floats) -> tuple[int, Floats]:
        weight, distance = rule.settings.history, rule.settings.threshold_percent / 100
        for number, (usage, new) in enumerate(zip(usages, fresh, strict=True)):
            unknown = np.isnan(ewmas)
            after = np.where(unknown, usage, np.where(new, ewmas * weight + (1 - weight) * usage, ewmas))
            mean, mean_usage = fsum(after.tolist()) / len(after), fsum(usage.tolist()) / len(usage)
            if mean > 0 and bool(((after >= mean + distance) & (usage >= mean_usage + distance)).any()):
                return number, ewmas
            ewmas = after
        return len(usages), ewmas

    return threshold

"""Ratings of strategies by the properties of published comparisons, and whether the order is the
published one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isfinite, nan
from typing import get_args

from pulsar_rebalancer.lab.simulate.runs import Made, grouped
from pulsar_rebalancer.lab.simulation.scenarios import catalog
from pulsar_rebalancer.lab.simulation.scenarios.schema import Property
from strategies.ordered_sum import ordered_sum

#: Property → the figure that measures it (lower is better), and its description.
MEASURES: Mapping[Property, tuple[str, str]] = {
    "heterogeneity": (
        "lasting_spread",
        "spread of usage between unequal machines at the end, in points",
    ),
    "stability": ("unloads_per_hour", "unloads an hour while load is not lastingly uneven"),
    "over-placement": ("over_placement", "points by which destinations rose above the mean"),
    "over-unloading": ("over_unloading", "points by which sources fell below the mean"),
}
#: Grades of Pulsar's classes by the author of "Practical Optimization of Apache Pulsar".
PUBLISHED: Mapping[str, Mapping[Property, str]] = {
    "threshold/parity+LRUW": {
        "heterogeneity": "fair",
        "stability": "good",
        "over-placement": "poor",
        "over-unloading": "poor",
    },
    "uniform/parity+LLTMR": {
        "heterogeneity": "poor",
        "stability": "poor",
        "over-placement": "good",
        "over-unloading": "good",
    },
    "avg/parity+avg": {
        "heterogeneity": "fair",
        "stability": "good",
        "over-placement": "good",
        "over-unloading": "good",
    },
}
_BEST_FIRST = ("good", "fair", "poor")


@dataclass(frozen=True, slots=True)
class Rated:
    """Ratings. `values`: strategy → property → mean over scenarios of the mean over seeds; NaN if
    no scenario that ran rates it.
    """

    values: Mapping[str, Mapping[Property, float]]
    scenarios: Mapping[Property, tuple[str, ...]]

    def order(self, name: Property) -> bool | None:
        """Whether each strategy with a better published grade has the lower figure; None without a
        pair to compare.
        """
        known = {
            who: PUBLISHED[who][name]
            for who, found in self.values.items()
            if who in PUBLISHED and isfinite(found[name])
        }
        pairs = [
            (one, other)
            for one, other in permutations(known, 2)
            if _grade(known[one]) < _grade(known[other])
        ]
        return (
            all(self.values[one][name] < self.values[other][name] for one, other in pairs)
            if pairs
            else None
        )


def rated(made: Sequence[Made]) -> Rated | None:
    """The ratings of the runs; None if fewer than two strategies ran in scenarios that rate a
    property.
    """
    shows: dict[Property, tuple[str, ...]] = {}
    for name, path in {one.scenario: one.request.scenario for one in made}.items():
        for rating in catalog.load(path).scenario.rates:
            shows[rating] = (*shows.get(rating, ()), name)
    groups = grouped(made)
    strategies = list(dict.fromkeys(label for _, label in groups))
    if not shows or len(strategies) < 2:
        return None
    values = {
        who: {
            name: _mean(groups, who, shows.get(name, ()), MEASURES[name][0])
            for name in get_args(Property)
        }
        for who in strategies
    }
    return Rated(values, shows)


def _mean(
    groups: Mapping[tuple[str, str], Sequence[Made]], who: str, where: Sequence[str], figure: str
) -> float:
    means = [
        _average([getattr(one.figures, figure) for one in groups[scenario, who]])
        for scenario in where
        if (scenario, who) in groups
    ]
    return _average(means)


def _average(values: Sequence[float]) -> float:
    known = [value for value in values if isfinite(value)]
    return ordered_sum(known) / len(known) if known else nan


def _grade(word: str) -> int:
    return _BEST_FIRST.index(word)

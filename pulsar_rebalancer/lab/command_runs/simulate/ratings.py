"""Ratings as a table, a legend, a sentence and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isfinite, nan
from typing import Any, get_args

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.command_runs.simulate.tables import shown
from pulsar_rebalancer.lab.requested_runs import Made, grouped
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
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
            if _BEST_FIRST.index(known[one]) < _BEST_FIRST.index(known[other])
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
        for rating in read_scenarios.load(path).scenario.rates:
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
        _average([one.figures[figure] for one in groups[scenario, who]])
        for scenario in where
        if (scenario, who) in groups
    ]
    return _average(means)


def _average(values: Sequence[float]) -> float:
    known = [value for value in values if isfinite(value)]
    return ordered_sum(known) / len(known) if known else nan


def rows(found: Rated) -> tuple[list[str], list[list[str]]]:
    """Headings, and one row per strategy: each figure, followed by the published grade."""
    names = list(found.scenarios)
    return ["strategy", *names], [
        [who, *(_cell(who, name, values[name]) for name in names)]
        for who, values in found.values.items()
    ]


def table(found: Rated) -> console.Sheet:
    """The table of ratings: one row per strategy, one column per property."""
    heads, lines = rows(found)
    return console.Sheet(
        [(head, "right" if at else "left") for at, head in enumerate(heads)],
        lines,
        title="ratings, lower is better",
    )


def legend(found: Rated) -> str:
    """The meaning of the figures and the scenarios they are from."""
    parts = [
        f"{name}: {MEASURES[name][1]} ({', '.join(where)})"
        for name, where in found.scenarios.items()
    ]
    return "; ".join(parts) + ". Means over scenarios and seeds; in brackets the published grade."


def verdict(found: Rated) -> str:
    """The sentence that compares the order of the strategies with the published one."""
    orders = {name: found.order(name) for name in found.scenarios}
    known = [name for name, kept in orders.items() if kept is not None]
    if not known:
        return (
            "Too few of these strategies have published ratings (as Pulsar's classes in parity "
            "mode do): there is no order to compare."
        )
    lost = [name for name in known if not orders[name]]
    kept = (
        f"The order of the published ratings is reproduced in {len(known) - len(lost)} of "
        f"{len(known)} properties"
    )
    return f"{kept}; not in {', '.join(lost)}." if lost else f"{kept}: {', '.join(known)}."


def as_json(found: Rated) -> dict[str, Any]:
    """Figures, published grades and the order as one JSON object."""
    return {
        "strategies": {
            who: {
                name: {"value": values[name], "published": PUBLISHED.get(who, {}).get(name)}
                for name in found.scenarios
                if isfinite(values[name])
            }
            for who, values in found.values.items()
        },
        "scenarios": {name: list(where) for name, where in found.scenarios.items()},
        "order_as_published": {name: found.order(name) for name in found.scenarios},
    }


def _cell(who: str, name: Property, value: float) -> str:
    grade = PUBLISHED.get(who, {}).get(name)
    return shown(value) + (f" ({grade})" if grade else "")

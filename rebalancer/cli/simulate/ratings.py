"""Strategies rated by what published comparisons of them rate, and whether the order is the published one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isfinite, nan
from typing import Any, get_args

from rebalancer.analysis.simulate.runs import Made
from rebalancer.cli import console
from rebalancer.cli.simulate.tables import grouped, shown
from rebalancer.simulation.scenarios import catalog
from rebalancer.simulation.scenarios.schema import Property

#: Property → the figure it is measured by (less is better), and what that is.
MEASURES: Mapping[Property, tuple[str, str]] = {
    "heterogeneity": ("lasting_spread", "points of usage that unequal machines are apart at the end"),
    "stability": ("unloads_per_hour", "unloads an hour while nothing lasting is wrong"),
    "over-placement": ("over_placement", "points by which brokers that were given bundles rose above the mean"),
    "over-unloading": ("over_unloading", "points by which brokers that gave bundles fell below the mean"),
}
#: "Practical Optimization of Apache Pulsar": what its author says of Pulsar's classes.
PUBLISHED: Mapping[str, Mapping[Property, str]] = {
    "threshold/parity+LRUW": {"heterogeneity": "fair", "stability": "good", "over-placement": "poor", "over-unloading": "poor"},
    "uniform/parity+LLTMR": {"heterogeneity": "poor", "stability": "poor", "over-placement": "good", "over-unloading": "good"},
    "avg/parity+avg": {"heterogeneity": "fair", "stability": "good", "over-placement": "good", "over-unloading": "good"},
}
_BEST_FIRST = ("good", "fair", "poor")


@dataclass(frozen=True, slots=True)
class Rated:
    """`values`: strategy → property → mean over scenarios of the mean over seeds, NaN where nobody ran a scenario that shows it."""

    values: Mapping[str, Mapping[Property, float]]
    scenarios: Mapping[Property, tuple[str, ...]]

    def order(self, name: Property) -> bool | None:
        """Whether every strategy with a better published grade has the lower figure; None with nobody to compare."""
        known = {who: PUBLISHED[who][name] for who, found in self.values.items() if who in PUBLISHED and isfinite(found[name])}
        pairs = [(one, other) for one, other in permutations(known, 2) if _grade(known[one]) < _grade(known[other])]
        return all(self.values[one][name] < self.values[other][name] for one, other in pairs) if pairs else None


def rated(made: Sequence[Made]) -> Rated | None:
    """None where fewer than two strategies ran in scenarios that say what they show."""
    shows: dict[Property, tuple[str, ...]] = {}
    for name, path in {one.scenario: one.request.scenario for one in made}.items():
        for rating in catalog.load(path).scenario.rates:
            shows[rating] = (*shows.get(rating, ()), name)
    groups = grouped(made)
    strategies = list(dict.fromkeys(label for _, label in groups))
    if not shows or len(strategies) < 2:
        return None
    values = {who: {name: _mean(groups, who, shows.get(name, ()), MEASURES[name][0]) for name in get_args(Property)} for who in strategies}
    return Rated(values, shows)


def rows(found: Rated) -> tuple[list[str], list[list[str]]]:
    """Headings, and one row for each strategy: figures, with the published grade behind them."""
    names = list(found.scenarios)
    return ["strategy", *names], [[who, *(_cell(who, name, values[name]) for name in names)] for who, values in found.values.items()]


def table(found: Rated) -> console.Sheet:
    """The same for a terminal."""
    heads, lines = rows(found)
    return console.Sheet([(head, "right" if at else "left") for at, head in enumerate(heads)], lines, title="ratings, less is better")


def legend(found: Rated) -> str:
    """What the figures are, and where they come from."""
    parts = [f"{name}: {MEASURES[name][1]} ({', '.join(where)})" for name, where in found.scenarios.items()]
    return "; ".join(parts) + ". Means over scenarios and seeds; in brackets the published grade."


def verdict(found: Rated) -> str:
    """The sentence about the order."""
    orders = {name: found.order(name) for name in found.scenarios}
    known = [name for name, kept in orders.items() if kept is not None]
    if not known:
        return "Too few of these strategies have a published rating to compare their order (Pulsar's classes in parity mode have one)."
    lost = [name for name in known if not orders[name]]
    kept = f"The order of the published ratings is reproduced in {len(known) - len(lost)} of {len(known)} properties"
    return f"{kept}; not in {', '.join(lost)}." if lost else f"{kept}: {', '.join(known)}."


def as_json(found: Rated) -> dict[str, Any]:
    """Figures, published grades, order."""
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


def _mean(groups: Mapping[tuple[str, str], Sequence[Made]], who: str, where: Sequence[str], figure: str) -> float:
    means = [_average([getattr(one.figures, figure) for one in groups[scenario, who]]) for scenario in where if (scenario, who) in groups]
    return _average(means)


def _average(values: Sequence[float]) -> float:
    known = [value for value in values if isfinite(value)]
    return sum(known) / len(known) if known else nan


def _grade(word: str) -> int:
    return _BEST_FIRST.index(word)


def _cell(who: str, name: Property, value: float) -> str:
    grade = PUBLISHED.get(who, {}).get(name)
    return shown(value) + (f" ({grade})" if grade else "")

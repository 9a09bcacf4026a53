"""Ratings as a table, a legend, a sentence and JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.simulate.shedder_ratings import MEASURES, PUBLISHED, Rated
from pulsar_rebalancer.lab.simulation.scenarios.schema import Property
from pulsar_rebalancer.lab.tables.simulate.tables import shown


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

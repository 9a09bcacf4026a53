"""Compares published figures with simulated ones: the percentile of the published run among the
seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from pulsar_rebalancer.lab.simulate.runs import Made, grouped
from pulsar_rebalancer.lab.simulation.scenarios import catalog
from pulsar_rebalancer.lab.simulation.scenarios.schema import Published

#: A published run is one draw. It is reproduced if it is between these percentiles of the seeds.
INSIDE = (5.0, 95.0)


@dataclass(frozen=True, slots=True)
class Compared:
    """One published figure and those of the seeds. `percentile`: that of the published value among
    the seeds, ties counted half.
    """

    card: str
    scenario: str
    published: Published
    values: tuple[float, ...]

    @property
    def percentile(self) -> float:
        return percentile(self.published.value, self.values, self.published.tolerance)

    @property
    def inside(self) -> bool:
        return INSIDE[0] <= self.percentile <= INSIDE[1]


def percentile(value: float, values: Sequence[float], tolerance: float = 0.0) -> float:
    """Percent of the values below `value`, plus half of those that are equal within the
    tolerance.
    """
    known = [one for one in values if not isnan(one)]
    below = sum(one < value - tolerance - 1e-9 for one in known)
    equal = sum(abs(one - value) <= tolerance + 1e-9 for one in known)
    return 100.0 * (below + equal / 2) / len(known) if known else float("nan")


def compare(made: Sequence[Made]) -> list[Compared]:
    """Compares all published figures of all cards that ran."""
    found: list[Compared] = []
    for (scenario, _), group in grouped(made).items():
        card = catalog.load(group[0].request.scenario).scenario
        found += [
            Compared(
                card.card or scenario,
                scenario,
                one,
                tuple(getattr(run.figures, one.figure) for run in group),
            )
            for one in card.published
        ]
    return found


def headlines(compared: Sequence[Compared]) -> Mapping[str, bool]:
    """Card → whether all its headline figures are inside."""
    cards: dict[str, bool] = {}
    for one in compared:
        if one.published.headline:
            cards[one.card] = cards.get(one.card, True) and one.inside
    return cards

"""The comparison with published figures, as a table, a sentence and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.command_runs.simulate.tables import shown
from pulsar_rebalancer.lab.requested_runs import Made, grouped, median
from pulsar_rebalancer.lab.simulation.metrics.figures import finite
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
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
        card = read_scenarios.load(group[0].request.scenario).scenario
        found += [
            Compared(
                card.card or scenario,
                scenario,
                one,
                tuple(run.figures[one.figure] for run in group),
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


def table(compared: Sequence[Compared]) -> console.Sheet:
    """One line per figure; headline figures have an asterisk."""
    rows, last = [], ""
    for one in compared:
        published = one.published
        low, high = min(one.values), max(one.values)
        verdict = "inside" if one.inside else "outside"
        rows.append(
            [
                one.card if one.card != last else "",
                f"{published.figure}{' *' if published.headline else ''}",
                f"{shown(published.value)} [{published.kind}]",
                shown(median(one.values)),
                f"{shown(low)} – {shown(high)}",
                f"{one.percentile:.0f}",
                verdict + (", parameters chosen with it" if published.chosen_by else ""),
            ]
        )
        last = one.card
    headings = ("card", "figure", "published", "median", "range", "percentile", "5th–95th")
    return console.Sheet([(heading, "left") for heading in headings], rows)


def verdict(compared: Sequence[Compared]) -> str:
    """The sentence with the number of cards that agree with the published figures."""
    cards = headlines(compared)
    good = [card for card, inside in cards.items() if inside]
    rest = [card for card, inside in cards.items() if not inside]
    text = (
        f"{len(good)} of {len(cards)} cards: every headline figure (*) is between the 5th and the "
        "95th percentile of the seeds"
    )
    return f"{text}; outside: {', '.join(rest)}" if rest else text


def as_json(compared: Sequence[Compared]) -> dict[str, Any]:
    """The comparison as one JSON object."""
    return {
        "cards": dict(headlines(compared)),
        "published": [
            {
                "card": one.card,
                "scenario": one.scenario,
                "figure": one.published.figure,
                "headline": one.published.headline,
                "chosen_by": one.published.chosen_by,
                "value": one.published.value,
                "kind": one.published.kind,
                "simulated": [finite(value) for value in one.values],
                "percentile": one.percentile,
                "inside": one.inside,
            }
            for one in compared
        ],
    }

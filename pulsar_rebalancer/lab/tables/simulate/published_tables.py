"""The comparison with published figures, as a table, a sentence and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.simulate.published_comparison import Compared, headlines
from pulsar_rebalancer.lab.simulate.runs import median
from pulsar_rebalancer.lab.tables.simulate.tables import shown


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
                "simulated": [
                    None if value in (float("inf"), float("-inf")) or isnan(value) else value
                    for value in one.values
                ],
                "percentile": one.percentile,
                "inside": one.inside,
            }
            for one in compared
        ],
    }

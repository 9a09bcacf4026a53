"""The worked example of throttling in docs/STRATEGIES.md is what the limiters answer, and its defaults are those of the settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.broker_conf.keys import KEYS
from strategies.throttling.limiters import LIMITERS
from strategies.throttling.rates import DispatchRate, PublishRate
from strategies.throttling.token_bucket import SECOND_NS

PAGE = (Path(__file__).parents[2] / "docs" / "STRATEGIES.md").read_text("utf-8")


def examples() -> list[tuple[str, int, list[int]]]:
    """Limiter, messages delivered at once, messages each further period lets through."""
    found = re.search(r"<!-- example: throttling -->\n(.*?)<!-- /example -->", PAGE, re.DOTALL)
    assert found is not None
    rows = [[cell.strip(" `") for cell in line.strip("| ").split("|")] for line in found[1].splitlines()[2:]]
    return [(limiter, int(delivered), [int(word) for word in periods.split(",")]) for limiter, delivered, periods, _ in rows]


@pytest.mark.parametrize(("kind", "delivered", "periods"), examples())
def test_the_worked_example(kind: str, delivered: int, periods: list[int]) -> None:
    limiter = LIMITERS[kind](DispatchRate(10), 0, PublishRate(), "fixed").charged(delivered, 0, 0)
    answers = []
    for period in range(1, len(periods) + 1):
        limiter = limiter.seen(period * (SECOND_NS + 1), PublishRate())
        answers.append(limiter.available.messages)
        if answers[-1] == 9:
            limiter = limiter.charged(9, 0, period * (SECOND_NS + 1))
    assert answers == periods


def test_the_keys_of_the_page_are_keys() -> None:
    section = PAGE.split("## Dispatch throttling")[1].split("\n## ")[0]
    named = set(re.findall(r"`(dispatch[A-Za-z]+|preciseDispatcherFlowControl)`", section))
    assert named
    assert named <= set(KEYS)

"""The worked example of throttling in tests/conformance/README.md is what the limiters answer,
and its defaults are those of the settings.
"""

import re

import pytest

from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    LIMITERS,
    DispatchRate,
    PublishRate,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import SECOND_NS
from pulsar_rebalancer.settings.broker_conf.keys import KEYS
from tests.unit.strategies_page import PAGE, example


def examples() -> list[tuple[str, int, list[int]]]:
    """Limiter, messages delivered at once, messages each further period lets through."""
    rows = [[cell.strip("`") for cell in row] for row in example("throttling")]
    return [
        (limiter, int(delivered), [int(word) for word in periods.split(",")])
        for limiter, delivered, periods, _ in rows
    ]


@pytest.mark.parametrize(("kind", "delivered", "periods"), examples())
def test_the_worked_example(kind: str, delivered: int, periods: list[int]) -> None:
    limiter = LIMITERS[kind](DispatchRate(10), 0, PublishRate()).charged(delivered, 0, 0)
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

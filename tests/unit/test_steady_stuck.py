"""A broker whose only bundle is too large to move does not keep SteadyShedder from relieving the
brokers behind it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.plan import best_plan
from strategies.shedding.steady.settings import PROFILES


def _stuck_at_the_top(stuck: int, full: int, empty: int) -> LoadedBrokers:
    """Brokers at 60 points with one bundle of 52, at 53 with nine of 5, and at 8 with none."""
    held = [[52.0]] * stuck + [[5.0] * 9] * full + [[]] * empty

    def pieces(row: int) -> Pieces:
        sizes = np.array(held[row])
        names = tuple(f"t/ns/{row}-{at}" for at in range(len(sizes)))
        every = np.ones(len(sizes), dtype=bool)
        return Pieces(names, sizes, 0 * sizes, sizes, every, ~every)

    usage = np.array([8.0 + sum(sizes) for sizes in held])
    every = np.ones(len(held), dtype=bool)
    return LoadedBrokers(usage, np.ones(len(held)), pieces, lambda *_: every)


@pytest.mark.heavy
@pytest.mark.parametrize(("stuck", "full", "empty"), [(1, 40, 40), (4, 10, 10)])
def test_the_brokers_behind_a_stuck_one_are_relieved(stuck: int, full: int, empty: int) -> None:
    plan = best_plan(_stuck_at_the_top(stuck, full, empty), replace(PROFILES["default"], band=8.0))

    assert plan.after[stuck:].max() <= 38.0
    assert plan.after.min() >= 28.0

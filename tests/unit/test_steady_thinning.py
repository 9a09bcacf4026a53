"""A plan of SteadyShedder is not thinned so far that the next gap calls for the rest."""

from __future__ import annotations

import numpy as np

from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.plan import best_plan

_BAND = 4.0
#: Sizes (points) of the bundles of each of four full brokers.
_SIZES = np.array([10.0, 9, 8, 7, 6, 5, 4, 3, 2, 2, 1, 1])


def _joined() -> LoadedBrokers:
    """Four brokers with the same bundles, and an empty one that has just joined."""

    def pieces(row: int) -> Pieces:
        sizes = _SIZES if row < 4 else np.zeros(0)
        names = tuple(f"t/ns/{row}-{at:02d}" for at in range(len(sizes)))
        every = np.ones(len(sizes), dtype=bool)
        return Pieces(names, sizes, 0 * sizes, sizes, every, ~every)

    usage = np.array([8.0 + _SIZES.sum()] * 4 + [8.0])
    return LoadedBrokers(usage, np.ones(5), pieces, lambda *_: np.ones(5, dtype=bool))


def test_a_broker_that_joins_is_filled_to_what_follow_ups_leave_alone() -> None:
    plan = best_plan(_joined(), _BAND)

    assert plan.spread <= 1.5 * _BAND
    assert {one.destination for one in plan.moves} == {4}

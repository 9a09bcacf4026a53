"""Of equally large bundles, a plan of SteadyShedder moves the one with the least traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strategies.bundles import Floats
from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.plan import best_plan
from strategies.shedding.steady.settings import PROFILES

#: Bundles of the full broker, all of 10 points.
_BUNDLES = ("t/ns/a", "t/ns/b", "t/ns/c", "t/ns/d", "t/ns/e", "t/ns/f")


def _full_and_empty(traffic: Floats) -> LoadedBrokers:
    """A broker with 60 points in bundles of this traffic, and one with 30 in one bundle."""

    def pieces(row: int) -> Pieces:
        names = _BUNDLES if row == 0 else ("t/ns/z",)
        sizes = np.full(len(names), 10.0 if row == 0 else 30.0)
        every = np.ones(len(names), dtype=bool)
        throughput = traffic if row == 0 else np.array([1e6])
        return Pieces(names, sizes, 0 * sizes, throughput, every, ~every)

    everywhere = np.ones(2, dtype=bool)
    return LoadedBrokers(np.array([60.0, 30.0]), np.ones(2), pieces, lambda *_: everywhere)


@pytest.mark.parametrize("cheapest", range(len(_BUNDLES)))
def test_equal_bundles_cost_what_their_traffic_is(cheapest: int) -> None:
    traffic = np.full(len(_BUNDLES), 5e6)
    traffic[cheapest] = 1e6

    (move,) = best_plan(_full_and_empty(traffic), replace(PROFILES["default"], band=10.0)).moves

    assert move.bundle == _BUNDLES[cheapest]

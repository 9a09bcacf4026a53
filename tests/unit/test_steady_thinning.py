"""A plan of SteadyShedder has few moves, but is not thinned so far that the next gap calls for the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.plan import best_plan
from strategies.shedding.steady.settings import PROFILES

_PROFILE = PROFILES["default"]


def _cluster(held: Sequence[Sequence[float]], base: float) -> LoadedBrokers:
    """Brokers whose bundles have these sizes (points), and which need `base` without any."""

    def pieces(row: int) -> Pieces:
        sizes = np.array(held[row], dtype=float)
        names = tuple(f"t/ns/{row}-{at:02d}" for at in range(len(sizes)))
        every = np.ones(len(sizes), dtype=bool)
        return Pieces(names, sizes, 0 * sizes, sizes, every, ~every)

    usage, every = np.array([base + sum(sizes) for sizes in held]), np.ones(len(held), dtype=bool)
    return LoadedBrokers(usage, np.ones(len(held)), pieces, lambda *_: every)


def test_a_broker_that_joins_is_filled_to_what_follow_ups_leave_alone() -> None:
    full = [10.0, 9, 8, 7, 6, 5, 4, 3, 2, 2, 1, 1]

    plan = best_plan(_cluster([full, full, full, full, []], 8.0), _PROFILE)

    assert plan.spread < _PROFILE.follow_up
    assert {one.destination for one in plan.moves} == {4}


def test_one_bundle_moves_in_place_of_two_of_its_size() -> None:
    full = [14.6, 14.6, 11.0, 11.0, 7.3, 7.3, 3.7, 3.7]

    plan = best_plan(_cluster([full, [3.7] * 8, [1.2] * 8, [0.6] * 8], 20.0), _PROFILE)

    assert sorted(one.size for one in plan.moves) == [3.7, 11.0, 14.6, 14.6]
    assert plan.spread < _PROFILE.follow_up


def test_a_follow_up_leaves_what_small_moves_would_bring() -> None:
    """Nothing calls for them: an episode has one follow-up."""
    held = [[6.3], [0.7] * 8, [], []]
    usage = np.array([54.9, 53.3, 46.6, 41.6])
    brokers = replace(_cluster(held, 0.0), usage=usage)

    first, follow_up = (best_plan(brokers, _PROFILE, follows=follows) for follows in (False, True))

    assert [one.size for one in first.moves] == [6.3, 0.7]
    assert [one.size for one in follow_up.moves] == [6.3]
    assert follow_up.spread < _PROFILE.follow_up

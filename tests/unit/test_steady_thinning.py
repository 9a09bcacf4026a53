"""A plan of SteadyShedder has few moves, but is not thinned so far that the next gap calls for the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from strategies.cluster.memory import ClusterMemory, Memory
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.load_history import Episode, RecentMove
from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.plan import best_plan
from strategies.shedding.steady.settings import PROFILES, SteadySettings
from tests.world.brokers import WEIGHTS, broker, bundles, view

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


@pytest.mark.heavy
def test_moves_of_a_follow_up_are_worth_their_pauses() -> None:
    """Figures of real brokers: three moves were to cut the spread by 36 points. Most of what is
    left rests; six of the other bundles together would bring 4 points.
    """
    held = [[0.3] * 8, [1.5, 1.0, 0.5], [0.5] * 4, [0.5, 0.5, 0.4, 0.4, 0.3, 0.3, 0.3]]
    usage = np.array([32.0, 25.5, 30.0, 35.0])
    brokers = replace(_cluster(held, 0.0), usage=usage)

    any_, worth = (best_plan(brokers, _PROFILE, follows=True, least=least) for least in (0.0, 1.2))

    assert len(any_.moves) > 4
    assert worth.moves == ()


def _third_round_after(moves: int) -> Shedding:
    """After a plan of this number of moves that was to cut the spread by 40 points, three rounds
    with a gap of 10 points between two brokers with bundles of about one point.
    """
    last = RecentMove("t/ns/moved", "b1:1", "b2:1", 0, 1e6, 1e3, 0.01, 0.01, counted=True)
    episode = Episode(began_at_ms=0, last_at_ms=0, spread_before=0.5, spread_predicted=0.1)
    memory = Memory({}, ClusterMemory(moves=(last,) * moves, episode=episode))
    rule, shed = SteadyShedder(SteadySettings(), WEIGHTS), Shedding((), (), memory)
    for now_ms in (60_000, 120_000, 180_000):
        brokers = (
            replace(one, reported_at_ms=now_ms)
            for one in (
                broker("b1", 40.0, 40.0, bundles(*[1.0] * 40)),
                broker("b2", 30.0, 30.0, bundles(*[1.0] * 30, first=50)),
            )
        )
        shed = rule.shed(replace(view(*brokers), now_ms=now_ms), shed.memory)
    return shed


def test_what_a_follow_up_asks_of_its_moves_grows_with_what_the_moves_before_brought() -> None:
    many, few = _third_round_after(40), _third_round_after(2)

    assert [one.code for one in many.decisions] == ["follow-up"] * len(many.decisions) != []
    assert few.decisions == ()
    assert "tenth of what the last moves" in next(
        one.text for one in few.skips if one.code == "no-better-plan"
    )

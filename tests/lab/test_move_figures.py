"""Figures about moves: the error of expectations, useless moves, returns, how far moves go past the
mean, and whether strategies are in the published order.
"""

from dataclasses import replace
from math import isnan

import pytest

from pulsar_rebalancer.lab.command_runs.simulate.ratings import PUBLISHED, Rated, verdict
from pulsar_rebalancer.lab.simulation.metrics.moves import (
    over_placement,
    over_unloading,
    prediction_error,
    returns,
    useless_moves,
)
from pulsar_rebalancer.lab.simulation.scenarios.schema import Property
from pulsar_rebalancer.lab.simulation.timeline import Move, MoveKind, Timeline
from strategies.cluster.model import Expected
from tests.world.timelines import A, B, C, a_run

NAN = float("nan")
#: 10 points should go from a to b.
EVEN = Expected(0.6, 0.5, 0.4, 0.5)
UNEVEN = [(0.6, 0.4)]


def a_move(
    round_: int, expected: Expected = EVEN, destination: str | None = B, bundle: str = "x"
) -> Move:
    return Move(round_, 60_000 * round_, bundle, A, destination, "transfer", expected=expected)


def two_moves(round_: int) -> tuple[Move, ...]:
    """Each takes 5 points from a to b."""
    return (
        a_move(round_, Expected(0.6, 0.55, 0.4, 0.45)),
        a_move(round_, Expected(0.55, 0.5, 0.45, 0.5), bundle="y"),
    )


def simulated(*usage: tuple[float, ...]) -> Timeline:
    return a_run(usage, kind="re-assigned")


def test_the_error_is_the_mean_over_the_brokers_of_moves_two_rounds_later() -> None:
    run = simulated((0.6, 0.4), (0.5, 0.5), (0.53, 0.49))
    assert prediction_error(run, [a_move(0)]) == pytest.approx(2.0)


def test_moves_that_bring_a_tenth_of_the_expected_fall_are_not_useless() -> None:
    for after, useless in ((0.5, 0), (0.588, 0), (0.592, 2), (0.65, 2)):
        run = simulated((0.6, 0.4), (0.6, 0.4), (after, 1 - after))
        assert useless_moves(run, two_moves(0)) == useless, after


def test_each_round_of_moves_is_judged_alone() -> None:
    run = simulated((0.6, 0.4), *[(0.5, 0.5)] * 2, *UNEVEN * 3)
    assert useless_moves(run, (a_move(0), *two_moves(3))) == 2


def test_a_destination_that_pulsar_chose_counts_with_what_the_source_should_lose() -> None:
    unnamed = (a_move(0, Expected(0.6, 0.5, None, None)),)
    assert useless_moves(simulated((0.6, 0.4), *[(0.5, 0.5)] * 2), unnamed) == 0
    assert useless_moves(simulated(*UNEVEN * 3), unnamed) == 1


def test_only_brokers_of_both_rounds_are_compared() -> None:
    """The broker that joins empty makes the spread larger, the moves do not."""
    joins = simulated((0.6, 0.4, NAN), (0.5, 0.5, 0.0), (0.5, 0.5, 0.0))
    assert useless_moves(joins, [a_move(0)]) == 0


@pytest.mark.parametrize(
    ("run", "move"),
    [
        (simulated(*UNEVEN * 2), a_move(0)),
        (simulated(*UNEVEN * 2, (0.6, NAN)), a_move(0)),
        (simulated(*UNEVEN * 3), a_move(0, Expected())),
        (simulated(*UNEVEN * 3), a_move(0, destination=None)),
        (replace(simulated(*UNEVEN * 3), kind="recorded"), a_move(0)),
    ],
    ids=["ends too early", "broker left", "no expectation", "nobody took it", "open loop"],
)
def test_moves_that_cannot_be_judged_are_unknown(run: Timeline, move: Move) -> None:
    assert isnan(useless_moves(run, (move,)))


def test_without_moves_none_is_useless_and_no_error_is_known() -> None:
    run = simulated(*UNEVEN)
    assert useless_moves(run, ()) == 0
    assert isnan(prediction_error(run, ()))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ([(0, A, B), (59, B, A)], 1),
        ([(0, A, B), (60, B, A)], 0),
        ([(0, A, B), (5, B, C), (9, C, A)], 1),
        ([(0, A, B), (5, B, C), (9, C, B)], 1),
        ([(0, A, B), (5, B, C)], 0),
    ],
)
def test_a_bundle_that_comes_back_within_an_hour_returns(
    path: list[tuple[int, str, str]], found: int
) -> None:
    moves = [Move(at, 60_000 * at, "x", source, to, "transfer") for at, source, to in path]
    assert returns(moves) == found


@pytest.mark.parametrize(
    ("before", "after", "moves", "too_far"),
    [
        ((80, 50, 20), (50, 50, 50), [(0, A, C, "unload")], (0, 0)),
        ((80, 50, 20), (35, 50, 65), [(0, A, C, "unload")] * 2, (15, 15)),
        ((40, 60, 20), (36, 64, 20), [(0, A, B, "unload")], (4, 4)),
        ((50, 50, 50), (80, 50, NAN), [(1, C, A, "placed")], (0, 15)),
    ],
    ids=[
        "who stops at the mean",
        "giver and taker change places",
        "who was past the mean before",
        "a bundle that was left behind is seen at once and nobody unloaded it",
    ],
)
def test_moves_go_too_far_by_what_they_pass_the_mean(
    before: tuple[float, ...],
    after: tuple[float, ...],
    moves: list[tuple[int, str, str, MoveKind]],
    too_far: tuple[float, float],
) -> None:
    run = a_run([[figure / 100 for figure in usage] for usage in (before, after)])
    moved = [Move(at, 60_000 * at, "x", source, to, kind) for at, source, to, kind in moves]
    found = over_unloading(run, moved), over_placement(run, moved)
    assert found == pytest.approx(too_far)


def rated(**by_strategy: float) -> Rated:
    names = {name.partition("/")[0]: name for name in PUBLISHED}
    values: dict[str, dict[Property, float]] = {
        names[who]: {"stability": value} for who, value in by_strategy.items()
    }
    return Rated(values, {"stability": ("e2",)})


def test_the_published_order_compares_the_good_with_the_poor_and_nothing_among_equals() -> None:
    assert rated(threshold=1, avg=0, uniform=20).order("stability") is True
    assert rated(threshold=1, avg=30, uniform=20).order("stability") is False
    assert rated(threshold=1, avg=30).order("stability") is None
    assert verdict(rated(threshold=1, avg=30, uniform=20)).endswith(
        "in 0 of 1 properties; not in stability."
    )

"""Figures about what moves brought: the error of expectations, useless moves, and returns."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.metrics.moves import prediction_error, returns, useless_moves
from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.cluster.model import Expected

A, B, C = "a:1", "b:1", "c:1"
MINUTE_MS = 60_000
NAN = float("nan")


def a_run(*usage: Sequence[float], moves: tuple[Move, ...] = ()) -> Timeline:
    """One row per round, one column per broker."""
    figures = np.array(usage, dtype=np.float64)
    return Timeline(
        "a run",
        "re-assigned",
        "c",
        "avg/fixed",
        MINUTE_MS * np.arange(len(usage)),
        (A, B, C)[: figures.shape[1]],
        figures,
        figures,
        figures,
        figures,
        np.ones(len(usage), dtype=np.bool_),
        moves,
    )


def a_move(round_: int, expected: Expected, destination: str | None = B, bundle: str = "x") -> Move:
    return Move(round_, MINUTE_MS * round_, bundle, A, destination, "transfer", expected=expected)


#: 10 points should go from a to b.
EVEN = Expected(0.6, 0.5, 0.4, 0.5)


def two_moves(round_: int) -> tuple[Move, ...]:
    """Each takes 5 points from a to b."""
    return (
        a_move(round_, Expected(0.6, 0.55, 0.4, 0.45)),
        a_move(round_, Expected(0.55, 0.5, 0.45, 0.5), bundle="y"),
    )


def test_the_error_is_the_mean_over_the_brokers_of_moves_two_rounds_later() -> None:
    run = a_run((0.6, 0.4), (0.5, 0.5), (0.53, 0.49), moves=(a_move(0, EVEN),))
    assert prediction_error(run, run.moves) == pytest.approx(2.0)


def test_moves_that_bring_a_tenth_of_the_expected_fall_are_not_useless() -> None:
    for after, useless in ((0.5, 0), (0.588, 0), (0.592, 2), (0.65, 2)):
        moves = two_moves(0)
        run = a_run((0.6, 0.4), (0.6, 0.4), (after, 1 - after), moves=moves)
        assert useless_moves(run, moves) == useless, after


def test_each_round_of_moves_is_judged_alone() -> None:
    moves = (a_move(0, EVEN), *two_moves(3))
    run = a_run((0.6, 0.4), (0.5, 0.5), (0.5, 0.5), (0.6, 0.4), (0.6, 0.4), (0.6, 0.4))
    assert useless_moves(run, moves) == 2


def test_a_destination_that_pulsar_chose_counts_with_what_the_source_should_lose() -> None:
    unnamed = (a_move(0, Expected(0.6, 0.5, None, None)),)
    assert useless_moves(a_run((0.6, 0.4), (0.5, 0.5), (0.5, 0.5)), unnamed) == 0
    assert useless_moves(a_run((0.6, 0.4), (0.6, 0.4), (0.6, 0.4)), unnamed) == 1


def test_only_brokers_of_both_rounds_are_compared() -> None:
    """The broker that joins empty makes the spread larger, the moves do not."""
    joins = a_run((0.6, 0.4, NAN), (0.5, 0.5, 0.0), (0.5, 0.5, 0.0))
    assert useless_moves(joins, (a_move(0, EVEN),)) == 0


@pytest.mark.parametrize(
    ("run", "move"),
    [
        (a_run((0.6, 0.4), (0.6, 0.4)), a_move(0, EVEN)),
        (a_run((0.6, 0.4), (0.6, 0.4), (0.6, NAN)), a_move(0, EVEN)),
        (a_run((0.6, 0.4), (0.6, 0.4), (0.6, 0.4)), a_move(0, Expected())),
        (a_run((0.6, 0.4), (0.6, 0.4), (0.6, 0.4)), a_move(0, EVEN, destination=None)),
        (
            replace(a_run((0.6, 0.4), (0.6, 0.4), (0.6, 0.4)), kind="recorded"),
            a_move(0, EVEN),
        ),
    ],
    ids=["ends too early", "broker left", "no expectation", "nobody took it", "open loop"],
)
def test_moves_that_cannot_be_judged_are_unknown(run: Timeline, move: Move) -> None:
    assert isnan(useless_moves(run, (move,)))


def test_without_moves_none_is_useless_and_no_error_is_known() -> None:
    run = a_run((0.6, 0.4))
    assert useless_moves(run, ()) == 0
    assert isnan(prediction_error(run, ()))


def test_a_bundle_that_comes_back_within_an_hour_returns() -> None:
    def path(*stops: tuple[int, str, str]) -> list[Move]:
        return [
            Move(at, MINUTE_MS * at, "x", source, destination, "transfer")
            for at, source, destination in stops
        ]

    assert returns(path((0, A, B), (59, B, A))) == 1
    assert returns(path((0, A, B), (60, B, A))) == 0
    assert returns(path((0, A, B), (5, B, C), (9, C, A))) == 1
    assert returns(path((0, A, B), (5, B, C), (9, C, B))) == 1
    assert returns(path((0, A, B), (5, B, C))) == 0

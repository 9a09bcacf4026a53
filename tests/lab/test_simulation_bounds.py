"""The least that must move and the most even that whole bundles can get: printed figures, and small
cases solved exactly.
"""

from math import isnan

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.metrics.least_move_and_spread import (
    attainable_spread,
    largest_over_share,
    least_to_move,
)
from pulsar_rebalancer.lab.simulation.noise import Stream
from strategies.bundles import Floats

#: CPU (percent) of card E7 before the first unload.
E7_USAGE = np.array([38.5, 45.6, 49.4, 54.0, 63.0])


@pytest.mark.parametrize(("spread", "points"), [(15, 4.75), (10, 7.3), (5, 11.45), (0, 16.8)])
def test_the_least_that_had_to_move_in_e7_is_the_printed_one(spread: float, points: float) -> None:
    assert least_to_move(E7_USAGE, spread, np.ones(len(E7_USAGE))) == pytest.approx(
        points, abs=0.06
    )


def test_nothing_has_to_move_inside_the_band() -> None:
    assert least_to_move(E7_USAGE, 24.5, np.ones(len(E7_USAGE))) == pytest.approx(0.0)


def test_a_strong_broker_takes_more_load_for_the_same_usage() -> None:
    """Usages 80 and 20: from a weak broker to a strong one fewer units of load leave the strong one
    lower.
    """
    assert least_to_move(np.array([80.0, 20.0]), 0, np.array([1.0, 1.0])) == pytest.approx(30)
    assert least_to_move(np.array([80.0, 20.0]), 0, np.array([1.0, 3.0])) == pytest.approx(45)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(12))
def test_the_attainable_spread_is_close_to_what_an_exact_solver_finds(seed: int) -> None:
    stream = Stream(seed)
    brokers = 2 + seed % 3
    sizes = 1.0 + 9.0 * stream.uniform(9)
    idle, capacity = 5.0 * stream.uniform(brokers), 1.0 + stream.uniform(brokers)
    exact = _exact_spread(sizes, idle, capacity)
    found = attainable_spread(sizes, idle, capacity)
    mean = float((sizes.sum() / capacity.sum()) + idle.mean())
    assert exact - 1e-6 <= found <= exact + 0.12 * mean


def test_sixteen_equal_bundles_on_five_brokers_leave_a_ratio_of_a_third() -> None:
    """As the published results say of cards E3 and E4: 4 bundles here, 3 there."""
    assert attainable_spread(np.ones(16), np.zeros(5), np.ones(5)) == pytest.approx(1.0)


def test_with_many_small_bundles_less_than_a_percent_of_the_mean_is_attainable() -> None:
    sizes = 0.5 + Stream(1).uniform(16 * 5)
    assert attainable_spread(sizes, np.zeros(5), np.ones(5)) < 0.01 * sizes.sum() / 5


def test_a_bundle_larger_than_a_fair_share_must_be_split() -> None:
    assert largest_over_share(np.array([10.0, 1.0, 1.0]), 3) == pytest.approx(2.5)
    assert largest_over_share(np.array([4.0, 4.0, 4.0]), 3) == pytest.approx(1.0)
    assert isnan(largest_over_share(np.zeros(3), 3))


@pytest.mark.parametrize("seed", range(6))
def test_no_move_of_whole_bundles_beats_the_bound(seed: int) -> None:
    """Solved exactly: the least load that moves to bring usages within a spread is never below the
    divisible bound.
    """
    stream = Stream(seed, 7)
    sizes, owner = 1.0 + 4.0 * stream.uniform(8), np.array([0, 0, 0, 0, 0, 1, 1, 2])
    usage = np.asarray(np.bincount(owner, sizes, minlength=3), dtype=np.float64)
    spread = 0.4 * float(usage.max() - usage.min())
    exact = _exact_moves(sizes, owner, 3, spread)
    assert least_to_move(usage, spread, np.ones(len(usage))) <= exact + 1e-6


def _exact_spread(sizes: Floats, idle: Floats, capacity: Floats) -> float:
    cost = np.zeros(len(sizes) * len(idle) + 2)
    cost[-2:] = -1, 1
    return _solved(cost, sizes, idle, capacity)


def _exact_moves(
    sizes: Floats, owner: np.ndarray[tuple[int], np.dtype[np.int64]], brokers: int, spread: float
) -> float:
    cost = np.repeat(sizes, brokers)
    cost[np.arange(len(sizes)) * brokers + owner] = 0.0
    cost = np.append(cost, [0.0, 0.0])
    return _solved(cost, sizes, np.zeros(brokers), np.ones(brokers), spread)


def _solved(
    cost: Floats, sizes: Floats, idle: Floats, capacity: Floats, spread: float = np.inf
) -> float:
    """The lowest cost by an exact solver. Columns: bundle i on broker j, then lowest and highest
    usage, which are at most `spread` apart.
    """
    # Here, because it takes most of a second in every process of a run.
    from scipy.optimize import Bounds, LinearConstraint, milp

    bundles, brokers = len(sizes), len(idle)
    places = bundles * brokers
    once = np.hstack([np.kron(np.eye(bundles), np.ones(brokers)), np.zeros((bundles, 2))])
    apart = np.zeros((1, places + 2))
    apart[0, -2:] = -1, 1
    solved = milp(
        cost,
        integrality=np.array([1] * places + [0, 0]),
        bounds=Bounds(np.zeros(places + 2), np.array([1.0] * places + [np.inf, np.inf])),
        constraints=[
            LinearConstraint(*_usage_rows(sizes, idle, capacity, places + 2)),
            LinearConstraint(once, 1, 1),
            LinearConstraint(apart, 0, spread),
        ],
    )
    assert solved.success
    return float(solved.fun)


def _usage_rows(
    sizes: Floats, idle: Floats, capacity: Floats, count: int
) -> tuple[Floats, Floats, Floats]:
    """Every usage is at least the lowest and at most the highest."""
    brokers = len(idle)
    rows = np.zeros((2 * brokers, count))
    for broker in range(brokers):
        for bundle, size in enumerate(sizes):
            rows[2 * broker : 2 * broker + 2, bundle * brokers + broker] = size / capacity[broker]
        rows[2 * broker, -2] = -1
        rows[2 * broker + 1, -1] = -1
    low = np.array([limit for start in idle for limit in (-start, -np.inf)])
    high = np.array([limit for start in idle for limit in (np.inf, -start)])
    return rows, low, high

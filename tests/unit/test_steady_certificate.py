"""What whole bundles can reach at best, and what must move: bounds that are never too high."""

import numpy as np
import pytest

from benchmarks.certificate_gaps import gap_of, lines, small_cluster
from benchmarks.exact_spread import TOLERANCE, exact_spread
from pulsar_rebalancer.lab.simulation.metrics import least_move_and_spread
from pulsar_rebalancer.lab.simulation.noise import Stream
from strategies.bundles import Floats, Ints
from strategies.cluster.round_figures import Certificate
from strategies.shedding.steady.optimum_certificate import (
    best_spread,
    certified,
    fewest_bytes,
    least_to_move,
)
from strategies.shedding.steady.planned_cluster import MovePlan, PlannedMove
from tests.world.steady import loaded, named

pytestmark = pytest.mark.heavy
#: Rounding of the bound, in points.
_ROUNDED = 1e-6
#: A byte/s per load.
_EQUAL = fewest_bytes(np.array([1e9]), np.array([1e9]))


def spread_of(sizes: list[float], brokers: int, capacity: list[float] | None = None) -> float:
    """The bound for idle brokers, which carry 1 unit of load per point unless given."""
    powers = np.ones(brokers) if capacity is None else np.array(capacity)
    return best_spread(np.array(sizes), np.zeros(brokers), powers)


def test_nearly_equal_bundles_leave_nearly_a_bundle() -> None:
    """22 bundles on three brokers: one carries eight, the others share fourteen."""
    sizes = [1.0 + 0.001 * row for row in range(22)]
    eight = sum(sizes[:8])
    assert spread_of(sizes, 3) == pytest.approx(eight - (sum(sizes) - eight) / 2)


def test_bundles_that_are_large_for_the_brokers_stand_out() -> None:
    """40 on one broker; the other three share 60. Five bundles of 6: usages are multiples of 6 on
    one broker, of 4 on the other.
    """
    assert spread_of([40.0, *[0.5] * 120], 4) == pytest.approx(20.0)
    assert spread_of([6.0] * 5, 2, [1.0, 1.5]) == pytest.approx(0.0, abs=_ROUNDED)
    assert spread_of([6.0] * 4, 2, [1.0, 1.5]) == pytest.approx(4.0)


def test_brokers_of_next_to_no_power_and_load_that_can_not_move_do_not_break_the_bound() -> None:
    assert 0.0 <= spread_of([2.0, 2.0, 2.0], 3, [1.0, 1.0, 1e-20]) <= 6.0
    fixed = np.array([50.0, 10.0, 10.0])
    assert best_spread(np.ones(20), fixed, np.ones(3)) == pytest.approx(30.0)
    assert best_spread(np.zeros(0), fixed, np.ones(3)) == pytest.approx(40.0)
    assert spread_of([1.0, 2.0], 1) == spread_of([], 0) == spread_of([], 3) == 0.0


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_the_bound_of_small_clusters_does_not_exceed_the_exact_optimum(start: int) -> None:
    for seed in range(start, start + 10):
        cluster = small_cluster(seed, brokers=(2, 4), most=9)
        exact = exact_spread(cluster.problem, starts=1)
        assert exact.proven, seed
        assert exact.reached - 1.1 * TOLERANCE <= cluster.bound <= exact.reached, seed


@pytest.mark.parametrize("brokers", [9, 40, 100, 1000])
@pytest.mark.parametrize("per_broker", [1.5, 3.0, 20.0])
def test_the_bound_of_large_clusters_does_not_exceed_a_spread_that_is_reached(
    brokers: int, per_broker: float
) -> None:
    """Load that can not move fills what an assignment leaves, up to a point below the top."""
    for seed, width in enumerate((0.0, 0.5, 1.0, 1.0)):
        stream = Stream(seed, brokers)
        bundles = int(per_broker * brokers)
        owner = (brokers * stream.uniform(bundles)).astype(np.int64)
        sizes = (1.0 + width * stream.uniform(bundles)) ** (1 + 3 * (seed == 3))
        capacity = 1.0 + width * stream.uniform(brokers)
        usage = np.bincount(owner, sizes, minlength=brokers) / capacity
        fixed = usage.max() - usage + stream.uniform(brokers)
        assert best_spread(sizes, fixed, capacity) <= float(np.ptp(fixed + usage))


@pytest.mark.slow
def test_the_bound_of_500_clusters_does_not_exceed_the_exact_optimum() -> None:
    gaps = [gap_of(seed) for seed in range(500)]
    print("\n".join(lines(gaps)))
    assert [seed for seed, gap in enumerate(gaps) if gap.points < 0] == []
    proven = [gap.points for gap in gaps if gap.exact.proven]
    assert len(proven) > 350
    assert np.median(proven) < TOLERANCE


@pytest.mark.parametrize("seed", range(20))
def test_as_much_load_must_move_as_the_figures_of_simulations_say(seed: int) -> None:
    stream = Stream(seed, 3)
    usage, capacity = 100 * stream.uniform(6), 1.0 + stream.uniform(6)
    for spread in (0.0, 10.0, 30.0):
        expected = least_move_and_spread.least_to_move(usage, spread, capacity)
        found = least_to_move(usage, capacity, spread, [_EQUAL] * 6, _EQUAL)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert found <= expected


def test_the_fewest_bytes_are_those_of_the_bundles_with_the_least_bytes_per_load() -> None:
    usage, capacity = np.array([60.0, 20.0, 20.0]), np.ones(3)
    # The cheapest bundle has 5 units of load for 2 bytes/s each, the other one 3 each.
    few = [fewest_bytes(np.array([55.0, 5.0]), np.array([165.0, 10.0])), *[_EQUAL] * 2]
    needs = least_to_move(usage, capacity, 20.0, few, _EQUAL)
    # With the band from low to low + 20: (40 − low) · 3 − 5 leave, (low − 20) · 2 · 1 arrive.
    assert needs == pytest.approx((40 - 31) * 3 - 5)
    assert least_to_move(usage, capacity, 40.0, few, _EQUAL) == 0.0


def test_a_broker_that_joins_empty_does_not_make_moves_look_needless() -> None:
    """Ten bundles of 1 MB/s and 6 points each on one broker: half of them must move."""
    full = named(*[6.0] * 10)
    brokers = loaded([full, {}], 0.0, traffic=[1e6] * 10)
    moves = tuple(PlannedMove(name, 0, 1, 6.0, 0.0) for name in [*full][:5])
    half = MovePlan(moves, np.array([30.0, 30.0]), np.zeros(2))

    made = certified(brokers, half)

    assert (made.spread, made.best_spread, made.moved) == (0.0, 0.0, 5e6)
    assert made.least_to_move == pytest.approx(5e6)
    assert certified(brokers, half, None) == Certificate(0.0, None, 5e6, None)


@pytest.mark.parametrize("seed", range(30))
def test_no_random_moves_reach_a_spread_with_less(seed: int) -> None:
    stream = Stream(seed, 4)
    owner, after = _owners(stream), _owners(stream)
    sizes, price = 1.0 + stream.uniform(24), 1.0 + stream.uniform(24)
    capacity, moved = 1.0 + stream.uniform(4), owner != after
    reached = float(np.ptp(_usage(after, sizes, capacity)))
    traffic, usage = sizes * price, _usage(owner, sizes, capacity)
    fewest = [fewest_bytes(sizes[owner == row], traffic[owner == row]) for row in range(4)]
    least = least_to_move(usage, capacity, reached, fewest, fewest_bytes(sizes, traffic))
    assert least <= float(traffic[moved].sum())


def _owners(stream: Stream) -> Ints:
    return (4 * stream.uniform(24)).astype(np.int64)


def _usage(owner: Ints, sizes: Floats, capacity: Floats) -> Floats:
    return np.asarray(np.bincount(owner, sizes, minlength=4) / capacity)

"""What must hold of the bounds of a certificate, whatever the cluster."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.bundles import Floats
from strategies.shedding.steady.optimum_certificate import best_spread, least_to_move
from tests.properties.costly import costly

_SIZES = st.one_of(
    st.floats(0.0, 100.0), st.sampled_from([1.0, 1.0, 2.0, 5.0]), st.floats(1.0, 1.01)
)
_POWERS = st.one_of(st.just(1.0), st.sampled_from([1.0, 1.5, 3.0]), st.floats(0.5, 4.0))


@dataclass(frozen=True, eq=False)
class Packed:
    """A cluster, and another order of its bundles and brokers."""

    sizes: Floats
    fixed: Floats
    capacity: Floats
    bundles: list[int]
    brokers: list[int]


@st.composite
def packed(draw: st.DrawFn, most_brokers: int = 8, most_bundles: int = 40) -> Packed:
    brokers, bundles = draw(st.integers(1, most_brokers)), draw(st.integers(0, most_bundles))
    return Packed(
        np.array(draw(st.lists(_SIZES, min_size=bundles, max_size=bundles)), dtype=np.float64),
        np.array(draw(st.lists(st.floats(-5, 50), min_size=brokers, max_size=brokers))),
        np.array(draw(st.lists(_POWERS, min_size=brokers, max_size=brokers))),
        draw(st.permutations(range(bundles))),
        draw(st.permutations(range(brokers))),
    )


@costly
@given(case=packed(most_brokers=4, most_bundles=6))
def test_the_bound_does_not_exceed_the_best_of_all_assignments(case: Packed) -> None:
    owners = np.array(list(product(range(len(case.fixed)), repeat=len(case.sizes))))
    usages = np.stack(
        [
            fixed + (owners == row) @ case.sizes / case.capacity[row]
            for row, fixed in enumerate(case.fixed.tolist())
        ]
    )
    best = float(np.ptp(usages, axis=0).min())
    assert best_spread(case.sizes, case.fixed, case.capacity) <= best


@pytest.mark.heavy
@costly
@given(case=packed())
def test_the_order_of_brokers_and_bundles_does_not_change_a_bit(case: Packed) -> None:
    again = best_spread(
        case.sizes[case.bundles], case.fixed[case.brokers], case.capacity[case.brokers]
    )
    assert again == best_spread(case.sizes, case.fixed, case.capacity)
    price, brokers = 1.0 + case.fixed**2, case.brokers
    assert least_to_move(case.fixed, case.capacity, 5.0, price) == least_to_move(
        case.fixed[brokers], case.capacity[brokers], 5.0, price[brokers]
    )


@pytest.mark.heavy
@costly
@given(case=packed())
def test_twice_the_load_on_twice_the_capacity_has_the_same_bound(case: Packed) -> None:
    doubled = best_spread(2 * case.sizes, case.fixed, 2 * case.capacity)
    assert doubled == best_spread(case.sizes, case.fixed, case.capacity)

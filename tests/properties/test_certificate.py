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
_LOADS = np.array([0.0, 1e6])
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
    if case.fixed[-1] >= 0:  # the last broker's bundles, every other one, are not read
        unread = float(case.fixed[-1] * case.capacity[-1] + case.sizes[::2].sum())
        fixed = np.append(case.fixed[:-1], 0.0)
        assert best_spread(case.sizes[1::2], fixed, case.capacity, unread) <= best + 1e-9


@pytest.mark.heavy
@costly
@given(case=packed())
def test_neither_order_nor_unit_of_load_changes_a_bit(case: Packed) -> None:
    again = best_spread(
        case.sizes[case.bundles], case.fixed[case.brokers], case.capacity[case.brokers]
    )
    assert again == best_spread(case.sizes, case.fixed, case.capacity)
    price, every = 1.0 + case.fixed**2, [*range(len(case.fixed))]
    one, other = (
        least_to_move(case.fixed[at], case.capacity[at], 5.0, fewest, (_LOADS, _LOADS))
        for at in (every, case.brokers)
        for fewest in [[(_LOADS, one * _LOADS) for one in price[at].tolist()]]
    )
    assert one == other
    doubled = best_spread(2 * case.sizes, case.fixed, 2 * case.capacity)
    assert doubled == best_spread(case.sizes, case.fixed, case.capacity)

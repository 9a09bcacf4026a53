"""Logarithms and powers, whose last bit depends on the processor, leave no trace in what
SteadyShedder decides.
"""

from __future__ import annotations

from strategies.shedding.steady.gaps import crowd_points
from strategies.shedding.steady.spread_bounds import _some


def test_the_limits_of_a_large_cluster_have_nine_digits() -> None:
    limits = [crowd_points(brokers) for brokers in range(1, 2000)]

    assert limits == [round(limit, 9) for limit in limits]
    assert limits[:8] == [0.0] * 8
    assert limits[15] == 1.386294361


def test_a_power_that_is_a_whole_number_is_chosen_as_it() -> None:
    """Of 64 steps from 1 to 343 one is 49, or a last bit below it on some processors."""
    chosen = _some(344, 64).tolist()

    assert 49 in chosen
    assert 48 not in chosen
    assert chosen[-1] == 343

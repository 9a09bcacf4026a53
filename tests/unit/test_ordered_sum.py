"""Figures are added one after the other, whatever `sum` of the interpreter does."""

import pytest

from strategies.ordered_sum import ordered_sum


def test_each_addition_rounds_as_in_java() -> None:
    """`sum` gives 1.0 and 2.0 here since Python 3.12."""
    assert ordered_sum([0.1] * 10) == 0.9999999999999999
    assert ordered_sum([1.0, 1e100, 1.0, -1e100]) == 0.0


@pytest.mark.parametrize("whole", [[], [3, 4], [True, False, True]])
def test_whole_numbers_stay_whole(whole: list[int]) -> None:
    found = ordered_sum(whole)
    assert (found, type(found)) == (sum(whole), int)

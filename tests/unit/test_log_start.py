"""The time at the start of a log: the one that most records are near to, above all the one of a
sweep; sure only with enough of them.
"""

from __future__ import annotations

import pytest

from strategies.cluster.packing import EarlyRecord
from strategies.cluster.state import Clock
from strategies.fold.start_fold import corrected_time, may_close_first_round

JUMP = 300


def sure(near: int, far: int) -> bool:
    """Whether a round may close at a record near the time, after so many others near to it and far
    from it.
    """
    return may_close_first_round([EarlyRecord(0, b"", n < far) for n in range(near - 1 + far)])


@pytest.mark.parametrize(
    ("near", "far", "enough"),
    [(5, 0, False), (6, 0, True), (15, 1, False), (16, 1, True), (16, 8, False), (17, 8, True)],
)
def test_six_records_that_agree_are_enough_and_where_some_do_not_sixteen_and_twice_as_many(
    near: int, far: int, enough: bool
) -> None:
    assert sure(near, far) is enough


def test_one_record_proves_no_time_and_two_that_agree_do() -> None:
    assert corrected_time([1_000], None, JUMP, swept=False) is None
    assert corrected_time([1_000, 1_301], None, JUMP, swept=False) is None
    assert corrected_time([1_000, 1_300], None, JUMP, swept=False) == 1_000


def test_a_time_that_is_right_stays_and_one_that_more_records_are_near_to_replaces_it() -> None:
    clock = Clock(1_000)
    assert corrected_time([1_000, 1_100, 1_200], clock, JUMP, swept=False) is None
    assert corrected_time([1_000, 5_000], clock, JUMP, swept=False) is None
    assert corrected_time([1_000, 1_100, 5_000, 5_100], clock, JUMP, swept=False) is None, (
        "as many here as there"
    )
    assert corrected_time([1_000, 1_100, 5_000, 5_100, 5_200], clock, JUMP, swept=False) == 5_000


def test_the_time_of_a_sweep_counts_as_soon_as_one_other_record_is_near_it() -> None:
    many = [1_000, 1_010, 1_020, 1_030]
    assert corrected_time([*many, 5_000], Clock(1_000), JUMP, swept=True) is None
    assert corrected_time([*many, 4_700, 5_000], Clock(1_000), JUMP, swept=True) == 5_000
    assert corrected_time([*many, 4_699, 5_000], Clock(1_000), JUMP, swept=True) is None
    assert corrected_time([*many, 1_300], Clock(1_000), JUMP, swept=True) is None, (
        "it is near the time already"
    )

"""The time of a cluster: how it moves, and the one at the start of a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.cluster.packing import EarlyRecord
from strategies.cluster.state import Clock
from strategies.fold.producer_votes import ClockVerdict, judge_clock
from strategies.fold.start_fold import corrected_time, may_close_first_round

JUMP, RECOVERY = 300_000, 900_000


def judge_all(clock: Clock, *timestamps: int) -> tuple[Clock, list[ClockVerdict]]:
    verdicts: list[ClockVerdict] = []
    for ts in timestamps:
        clock, verdict = judge_clock(clock, ts, JUMP, RECOVERY)
        verdicts.append(verdict)
    return clock, verdicts


def test_time_is_the_largest_believed_timestamp() -> None:
    clock, verdicts = judge_all(Clock(1_000_000), 1_010_000, 1_005_000)
    assert clock == Clock(1_010_000)
    assert verdicts == ["believed", "believed"]


def test_a_record_from_the_future_is_not_believed_and_moves_nothing() -> None:
    clock, verdicts = judge_all(Clock(1_000_000), 1_300_001)
    assert (clock.now_ms, verdicts) == (1_000_000, ["ahead"])


def test_the_bound_itself_is_believed() -> None:
    assert judge_all(Clock(1_000_000), 1_300_000)[1] == ["believed"]


def test_after_an_outage_the_log_is_believed_when_nothing_else_came_for_long_enough() -> None:
    hour = 3_600_000
    steps = [1_000_000 + hour + i * 60_000 for i in range(17)]
    clock, verdicts = judge_all(Clock(1_000_000), *steps)
    assert verdicts == ["ahead"] * 15 + ["moved-on", "believed"]
    assert clock.now_ms == steps[-1]


def test_a_single_good_record_ends_the_run_of_bad_ones() -> None:
    hour = 3_600_000
    bad = [1_000_000 + hour + i * 60_000 for i in range(15)]
    clock, verdicts = judge_all(Clock(1_000_000), *bad, 1_000_500, *bad)
    assert verdicts == ["ahead"] * 15 + ["believed"] + ["ahead"] * 15
    assert clock.now_ms == 1_000_500


def test_a_clock_that_was_set_back_is_believed_in_the_end() -> None:
    steps = [i * 60_000 for i in range(16)]
    assert judge_all(Clock(10_000_000), *steps)[1] == ["behind"] * 15 + ["moved-back"]


def test_records_that_are_not_believed_and_go_back_and_forth_prove_nothing() -> None:
    """A part of the log that is delivered twice spans as much as a log that has moved on, but it
    does not ascend.
    """
    minutes = [0, 4, 8, 12, 8, 12, 16, 20]
    clock, verdicts = judge_all(
        Clock(1_000_000), *(1_000_000 + 60_000 * (60 + minute) for minute in minutes)
    )
    assert (clock.now_ms, verdicts) == (1_000_000, ["ahead"] * 8)


def test_records_of_one_moment_and_those_as_far_apart_as_is_believed_go_on_with_the_run() -> None:
    minutes = [0, 5, 5, 10, 15]
    assert judge_all(Clock(1_000_000), *(1_000_000 + 60_000 * (60 + minute) for minute in minutes))[
        1
    ] == ["ahead"] * 4 + ["moved-on"]


def test_a_gap_that_is_not_believed_begins_another_run() -> None:
    steps = [4_000_000, 4_300_000, 4_600_001, 4_900_001]
    assert judge_all(Clock(1_000_000), *steps)[1] == ["ahead"] * 4


@given(st.lists(st.integers(0, 2**53), max_size=30))
def test_time_never_leaves_the_believed_range(timestamps: list[int]) -> None:
    clock = Clock(1_000_000)
    for ts in timestamps:
        before = clock
        clock, verdict = judge_clock(clock, ts, JUMP, RECOVERY)
        if verdict in ("ahead", "behind"):
            assert clock.now_ms == before.now_ms
        elif verdict == "believed":
            assert before.now_ms <= clock.now_ms <= before.now_ms + JUMP


NEAR = 300


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
    assert corrected_time([1_000], None, NEAR, swept=False) is None
    assert corrected_time([1_000, 1_301], None, NEAR, swept=False) is None
    assert corrected_time([1_000, 1_300], None, NEAR, swept=False) == 1_000


def test_a_time_that_is_right_stays_and_one_that_more_records_are_near_to_replaces_it() -> None:
    clock = Clock(1_000)
    assert corrected_time([1_000, 1_100, 1_200], clock, NEAR, swept=False) is None
    assert corrected_time([1_000, 5_000], clock, NEAR, swept=False) is None
    assert corrected_time([1_000, 1_100, 5_000, 5_100], clock, NEAR, swept=False) is None, (
        "as many here as there"
    )
    assert corrected_time([1_000, 1_100, 5_000, 5_100, 5_200], clock, NEAR, swept=False) == 5_000


def test_the_time_of_a_sweep_counts_as_soon_as_one_other_record_is_near_it() -> None:
    many = [1_000, 1_010, 1_020, 1_030]
    assert corrected_time([*many, 5_000], Clock(1_000), NEAR, swept=True) is None
    assert corrected_time([*many, 4_700, 5_000], Clock(1_000), NEAR, swept=True) == 5_000
    assert corrected_time([*many, 4_699, 5_000], Clock(1_000), NEAR, swept=True) is None
    assert corrected_time([*many, 1_300], Clock(1_000), NEAR, swept=True) is None, (
        "it is near the time already"
    )

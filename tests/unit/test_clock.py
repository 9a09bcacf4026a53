"""The time of a cluster: how it moves, and the one at the start of a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.cluster.cluster_state import Clock
from strategies.cluster.packed_records import EarlyRecord
from strategies.fold.first_records_of_log import corrected_time, may_close_first_round
from strategies.fold.producer_votes import ClockVerdict, judge_clock

JUMP, RECOVERY = 300_000, 900_000


def minutes(*numbers: int, after_ms: int = 1_000_000 + 3_600_000) -> list[int]:
    """So many minutes after an hour has passed."""
    return [after_ms + 60_000 * number for number in numbers]


AHEAD = minutes(*range(15))


@pytest.mark.parametrize(
    ("timestamps", "expected", "now_ms"),
    [
        ([1_010_000, 1_005_000], ["believed"] * 2, 1_010_000),
        ([1_300_000], ["believed"], 1_300_000),
        ([1_300_001], ["ahead"], 1_000_000),
        (minutes(*range(17)), ["ahead"] * 15 + ["moved-on", "believed"], 5_560_000),
        ([*AHEAD, 1_000_500, *AHEAD], ["ahead"] * 15 + ["believed"] + ["ahead"] * 15, 1_000_500),
        (minutes(*range(16), after_ms=-9_000_000), ["behind"] * 15 + ["moved-back"], -8_100_000),
        # Part of the log comes twice: it spans as much as a log that has moved on, and falls.
        (minutes(0, 4, 8, 12, 8, 12, 16, 20), ["ahead"] * 8, 1_000_000),
        (minutes(0, 5, 5, 10, 15), ["ahead"] * 4 + ["moved-on"], 5_500_000),
        ([4_000_000, 4_300_000, 4_600_001, 4_900_001], ["ahead"] * 4, 1_000_000),
    ],
    ids=(
        "time is the largest believed timestamp",
        "the bound itself is believed",
        "a record from the future moves nothing",
        "after an outage the log is believed when nothing else came for long enough",
        "a single good record ends the run of bad ones",
        "a clock that was set back is believed in the end",
        "records that go back and forth prove nothing",
        "records of one moment and those as far apart as is believed go on with the run",
        "a gap that is not believed begins another run",
    ),
)
def test_how_time_moves(timestamps: list[int], expected: list[ClockVerdict], now_ms: int) -> None:
    clock, verdicts = Clock(1_000_000), []
    for ts in timestamps:
        clock, verdict = judge_clock(clock, ts, JUMP, RECOVERY)
        verdicts.append(verdict)
    assert (verdicts, clock.now_ms) == (expected, now_ms)
    assert clock == Clock(now_ms) or expected[-1] != "believed", "no run goes on"


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
    """Whether a round may close after so many records near the time and far from it."""
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

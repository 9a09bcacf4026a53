"""What the month calls growth and a difference; the month itself runs on a real Kafka."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.month import Comparison, Day, faults, shown

pytestmark = pytest.mark.lab

DAY = Day(1, 100, 500, 90, 4, 200, 80, 3, 1_000, 0)


def days(*last: Day) -> list[Day]:
    return [*(replace(DAY, day=number) for number in (1, 2, 3)), *last]


def test_a_job_that_stays_as_it_is_has_no_faults() -> None:
    assert faults(days(replace(DAY, day=4, compared=9_000, java_mib=525, files=190))) == []
    assert faults([]) == []


def test_the_first_days_may_grow() -> None:
    assert faults([DAY, replace(DAY, java_mib=900)]) == []


def test_what_has_grown_is_named() -> None:
    grown = days(replace(DAY, day=4, java_mib=526, threads=90))
    assert faults(grown) == [
        "java_mib: 500 on day 3, 526 on day 4",
        "threads: 80 on day 3, 90 on day 4",
    ]
    assert shown(grown).endswith("threads: 80 on day 3, 90 on day 4")


def test_a_record_that_differs_is_a_fault_on_every_day() -> None:
    comparison = Comparison()
    comparison.expected["rounds"] += [b"1", b"2", b"3"]
    comparison.take("rounds", [b"1", b"x"])
    assert not comparison.complete
    comparison.take("rounds", [b"3", b"4"])
    assert comparison.complete
    assert (comparison.compared, comparison.differing) == (4, 2)
    assert faults([replace(DAY, differing=comparison.differing)]) == ["2 records differ"]

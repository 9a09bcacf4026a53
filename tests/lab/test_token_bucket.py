"""The token bucket: the worked table of the specification, debts, slow and fast rates."""

from __future__ import annotations

import pytest

from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import (
    SECOND_NS,
    Bucket,
    BucketRate,
    full,
    throttling_ns,
)
from strategies.errors import ContractError
from strategies.settings import Mode
from tests.lab.dispatcher import Dispatcher, dispatcher

TEN = BucketRate(10)


def test_the_worked_table_of_ten_a_second() -> None:
    ten = dispatcher(TEN)
    assert ten.after(0) == 10
    assert ten.takes(11) == -1
    assert ten.after(1) == -1, "tokens come strictly after the period"
    assert ten.after(0, nanos=1) == 9
    assert ten.takes(39) == -30
    assert [ten.after(1, nanos=1) for _ in range(5)] == [-20, -10, 0, 10, 10]
    assert ten.after(10) == 10
    assert ten.takes(30) == -20
    assert ten.after(1.5) == -5
    assert ten.after(3) == 10


def test_debt_is_paid_before_the_brim_counts() -> None:
    ten = dispatcher(TEN)
    ten.takes(15)
    assert ten.after(3) == 10, "30 tokens came, 15 of them for the debt"


def test_time_too_short_for_a_token_is_kept() -> None:
    seven = dispatcher(BucketRate(7, resolution_ns=1))
    seven.takes(7)
    assert [seven.after(0.5, nanos=1) for _ in range(4)] == [3, 7, 7, 7]
    seven.takes(7)
    balances = [seven.after(0, nanos=142_857_143) for _ in range(7)]
    assert balances == [1, 2, 3, 4, 5, 6, 7]


def test_a_slow_bucket_delivers_as_soon_as_a_token_is_whole() -> None:
    one = dispatcher(BucketRate(1, resolution_ns=16_000_000))
    one.takes(1)
    assert one.after(1, nanos=-1) == 0
    assert one.after(0, nanos=1) == 1


def test_sums_larger_than_64_bits_stay_exact() -> None:
    fast = dispatcher(BucketRate(1_000_000_000))
    fast.takes(200_000_000_000)
    assert fast.after(100) == -99_000_000_000


@pytest.mark.parametrize(
    ("rate", "wanted", "nanos"),
    [(TEN, None, 100_000_000), (TEN, 10, SECOND_NS), (BucketRate(1000), None, 10_000_000)],
)
def test_how_long_an_empty_bucket_needs(rate: BucketRate, wanted: int | None, nanos: int) -> None:
    assert throttling_ns(Bucket(0, 0, 0, 0), rate, wanted) == nanos


def test_a_bucket_with_enough_needs_no_time() -> None:
    assert throttling_ns(full(TEN, 0), TEN) == 0


@pytest.mark.parametrize(("mode", "balance"), [("parity", 5), ("fixed", 3)])
def test_java_uses_the_rounded_part_of_a_nanosecond_twice(mode: Mode, balance: int) -> None:
    """1.5 tokens a nanosecond, three looks: 4.5 came. Java gives 1 + 2 + 2, for it rounds the time
    a token took down to nothing.
    """
    rate = BucketRate(3, period_ns=2, resolution_ns=0, burst=100, mode=mode)
    fast = Dispatcher(rate, Bucket(0, 0, 0, 0))
    assert [fast.after(0, nanos=1) for _ in range(3)][-1] == balance


def test_a_burst_is_what_may_be_saved_up() -> None:
    saved = dispatcher(BucketRate(10, burst=50))
    assert saved.after(0) == 10
    assert saved.after(2) == 30
    assert saved.after(60) == 50


@pytest.mark.parametrize(
    "wrong",
    [lambda: BucketRate(0), lambda: BucketRate(1, period_ns=0)],
)
def test_nonsense_is_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ContractError):
        wrong()

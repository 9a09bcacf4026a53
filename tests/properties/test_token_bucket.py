"""What a token bucket can never hand out, whoever looks into it how often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import SECOND_NS, BucketRate
from tests.lab.dispatcher import dispatcher

rates = st.builds(
    BucketRate,
    st.integers(1, 50) | st.integers(1, 2_000_000_000),
    st.sampled_from([SECOND_NS // 10, SECOND_NS, 3 * SECOND_NS, 60 * SECOND_NS]),
    st.sampled_from([0, 1, 1_000_000, 16_000_000, SECOND_NS]),
    st.none(),
)
waits = st.lists(
    st.tuples(
        st.integers(0, 3 * SECOND_NS)
        | st.sampled_from([0, 1, SECOND_NS - 1, SECOND_NS, SECOND_NS + 1]),
        st.floats(0, 1),
    )
)


@given(rates, waits)
def test_never_more_than_rate_times_time_plus_burst(
    rate: BucketRate, looks: list[tuple[int, float]]
) -> None:
    """Whoever takes no more than the balance gets at most what arrived since the start, and the
    first bucketful.
    """
    greedy, taken = dispatcher(rate), 0
    for wait, part in looks:
        balance = greedy.after(0, nanos=wait)
        assert balance <= rate.capacity
        share = int(max(0, balance) * part)
        greedy.takes(share)
        taken += share
        assert (
            taken * rate.period_ns <= rate.tokens * greedy.now_ns + rate.capacity * rate.period_ns
        )


@given(rates, waits)
def test_looking_more_often_gains_nothing(rate: BucketRate, looks: list[tuple[int, float]]) -> None:
    """No time counts twice, and a look loses less than a nanosecond's worth and a token."""
    often, once = dispatcher(rate), dispatcher(rate)
    often.takes(rate.capacity * 1000)
    once.takes(rate.capacity * 1000)
    for wait, _ in looks:
        often.after(0, nanos=wait)
    due = often.bucket.filled_ns * rate.tokens // rate.period_ns - rate.capacity * 999
    assert once.after(0, nanos=often.now_ns) >= often.bucket.balance
    assert due - len(looks) * (rate.tokens // rate.period_ns + 1) - 1 <= often.bucket.balance <= due

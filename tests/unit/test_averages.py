"""Averages of bundles as in TimeAverageMessageData, one sample a round, at every owner."""

import numpy as np
import pytest

from strategies.averages.bundle_averages import (
    BundleHistory,
    first_history,
    unpack_history,
)
from strategies.bundles import TableSummary, lightest_first, ranks
from strategies.cluster.model import BundleStats
from strategies.errors import StateVersionError


def stats(**rates: float) -> BundleStats:
    """One bundle per keyword; the number is its rate and throughput, in and out."""
    ones = np.ones(len(rates), dtype=np.int64)
    traffic = np.array([[rate] * 4 for rate in rates.values()]).reshape(len(rates), 4)
    return BundleStats(tuple(rates), traffic, ones, ones)


def short_rate(history: BundleHistory, name: str) -> float:
    loads = history.loads()
    return float(loads.short[loads.names.index(name), 0])


def test_polling_more_often_adds_no_samples() -> None:
    history = first_history(stats(a=100.0), 1)
    for polled in (110.0, 120.0, 200.0):
        history = history.after(stats(a=polled), 1)
    assert short_rate(history, "a") == 200.0
    assert short_rate(history.after(stats(a=100.0), 2), "a") == 150.0


def test_a_bundle_keeps_its_average_when_its_neighbours_come_and_go() -> None:
    history = first_history(stats(a=100.0, b=7.0), 1).after(stats(c=1.0, a=200.0), 2)
    assert short_rate(history, "a") == 150.0
    assert short_rate(history, "c") == 1.0


def test_a_departing_bundle_takes_its_average_along() -> None:
    old = first_history(stats(a=100.0, b=7.0), 1).after(stats(a=200.0, b=7.0), 2)
    rows = old.departing(stats(b=7.0))
    assert list(rows) == ["a"]
    new = first_history(stats(x=1.0, a=300.0), 3).adopt(rows)
    assert short_rate(new, "a") == pytest.approx(200.0)
    assert new.loads().short_samples.tolist() == [1, 3]


def test_averages_that_arrive_late_are_joined_with_the_samples_taken_meanwhile() -> None:
    rows = first_history(stats(a=100.0), 1).departing(None)
    meanwhile = first_history(stats(a=300.0), 2).after(stats(a=500.0), 3)
    joined = meanwhile.adopt(rows)
    assert short_rate(joined, "a") == pytest.approx((100 + 300 + 500) / 3)
    assert joined.loads().long[0, 0] == pytest.approx((100 + 300 + 500) / 3)
    assert joined.loads().short_samples.tolist() == joined.loads().long_samples.tolist() == [3]


def test_the_stored_bytes_give_the_same_table_back() -> None:
    history = first_history(stats(a=0.1, ü=2.0), 1).after(stats(a=0.3, ü=4.0), 2)
    again = unpack_history(history.pack())
    assert again.pack() == history.pack()
    assert again.newest.names == ("a", "ü")
    assert np.array_equal(again.loads().long, history.loads().long)


def test_a_table_of_another_format_is_refused_with_a_next_step() -> None:
    packed = bytearray(first_history(stats(a=1.0), 1).pack())
    packed[0] = 99
    with pytest.raises(StateVersionError, match="new checkpoint folder"):
        unpack_history(bytes(packed))


def test_a_summary_has_the_newest_figures_in_it() -> None:
    history = first_history(stats(a=1.0, b=7.0), 1).after(stats(a=3.0, b=7.0), 2)
    assert history.summary() == TableSummary(9.0, 9.0, 2, 1, 1, 14.0, 14.0)
    assert first_history(stats(), 1).summary() == TableSummary(0.0, 0.0, 0, 0, 0, 0.0, 0.0)
    nan = first_history(stats(a=float("nan"), b=7.0), 1)
    assert nan.summary().most_rate == 14.0, "a figure that is none does not hide the largest"


def test_equal_rows_share_a_rank_and_names_decide_their_order() -> None:
    keys = np.array([[2, 0], [1, 5], [2, 0], [1, 4]])
    assert ranks(keys).tolist() == [2, 1, 2, 0]
    assert lightest_first(keys, ["b", "x", "a", "x"]).tolist() == [3, 1, 2, 0]
    assert ranks(np.empty((0, 5), dtype=np.int64)).tolist() == []

"""Orders, sums, maxima and the extensible manager's smoothed load."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from pulsar_rebalancer.lab.conformance.averaging import averages_order, sign
from strategies.averages.bundle_order import lightest_first, newest_order, ranks
from strategies.cluster.model import Figures, Resource, Traffic
from strategies.figures.usage import unweighted_usage, weighted_usage
from strategies.settings import Weights

NOTHING = np.zeros(1, dtype=np.int64)


def cpu(percent: float, throughput: float = 0.0) -> Figures:
    return Figures(cpu=Resource(percent, 100.0), traffic=Traffic(msg_throughput_in=throughput))


def newest(
    throughput: float = 0.0, rate: float = 0.0, clients: int = 0, cache: int = 0
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return newest_order(
        np.array([(rate, 0.0, throughput, 0.0)]), np.array([clients]), np.array([cache])
    )


def averaged(throughput: float) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    row = np.array([(0.0, 0.0, throughput, 0.0)])
    return averages_order(row, row)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (149_999, 50_000, 0),
        (149_999, 49_999, 1),
        (49_999, 149_999, -1),
        (1e300, 1e299, 0),
        (-1e300, -(2.0**63) * 100_000, 0),
    ],
)
def test_newest_figures_are_compared_in_rounded_steps(
    one: float, other: float, expected: int
) -> None:
    assert sign(newest(one)[0], newest(other)[0]) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(199_999, 100_000, 0), (199_999, 99_999, 1), (nan, 1.0, 0)]
)
def test_averages_are_compared_in_truncated_steps(one: float, other: float, expected: int) -> None:
    assert sign(averaged(one)[0], averaged(other)[0]) == expected


def test_halves_are_rounded_up_and_nothing_below_a_half_is() -> None:
    assert newest(throughput=0.49999999999999994 * 100_000)[0, 0] == 0
    assert newest(throughput=(2.0**52 + 1) * 100_000)[0, 0] == 2**52 + 1
    assert newest(throughput=-50_000.0)[0, 0] == 0


def test_clients_and_cached_bytes_are_compared_last() -> None:
    assert sign(newest(rate=50.0, clients=0)[0], newest(rate=0.0, clients=5000)[0]) == 1
    assert sign(newest(clients=499)[0], newest(clients=0)[0]) == 0
    assert sign(newest(clients=500)[0], newest(cache=10**9)[0]) == 1
    assert sign(newest(cache=100_000)[0], newest(cache=99_999)[0]) == 1


def test_equal_rows_share_a_rank_and_names_decide_their_order() -> None:
    keys = np.array([[2, 0], [1, 5], [2, 0], [1, 4]])
    assert ranks(keys).tolist() == [2, 1, 2, 0]
    assert lightest_first(keys, ["b", "x", "a", "x"]).tolist() == [3, 1, 2, 0]
    assert ranks(np.empty((0, 5), dtype=np.int64)).tolist() == []


def test_maxima_keep_the_32_bits_where_java_does() -> None:
    assert unweighted_usage(cpu(90.0)) == 0.8999999761581421
    assert weighted_usage(cpu(90.0), Weights()) == 0.9

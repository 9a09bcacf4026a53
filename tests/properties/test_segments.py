"""Segments of scalable topics, whatever their traffic: every key has one segment at any time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.lab.simulation.segments import HASHES, Keys, Segments, segments_of

SAMPLES_A_MINUTE = 6


@given(
    minutes=st.lists(st.floats(0, 300_000), min_size=1, max_size=30),
    weights=st.lists(st.floats(0.1, 10), min_size=1, max_size=16),
    initial=st.integers(1, 9),
    most=st.integers(1, 80),
)
def test_at_any_time_the_segments_are_all_hashes_once(
    minutes: list[float], weights: list[float], initial: int, most: int
) -> None:
    keys = Keys(np.array(weights))
    rates = np.repeat(np.array(minutes), SAMPLES_A_MINUTE)
    rules = Segments(initial=initial, max_segments=most)
    found = segments_of(rules, keys, 1000.0, rates, rates)
    assert [one.number for one in found] == list(range(len(found)))
    for minute in range(len(minutes) + 1):
        at = minute * 60.0 + 30.0
        there = sorted(
            (one for one in found if one.begin_s <= at < one.end_s), key=lambda one: one.low
        )
        edges = [(one.low, one.high + 1) for one in there]
        assert (edges[0][0], edges[-1][1]) == (0, HASHES)
        assert all(left[1] == right[0] for left, right in pairwise(edges))
        assert len(there) <= max(initial, most)
        assert sum(keys.share(one.low, one.high) for one in there) == pytest.approx(1.0)

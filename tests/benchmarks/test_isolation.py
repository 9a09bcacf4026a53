"""The benchmark of isolation: what it sends, and what its figures say; a tiny real run."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.isolation import FLOODED, LIMITS, Isolation, Plan, Senders, measured, text
from sinks.wire.codec import decode
from sinks.wire.peek import peek

TINY = Plan(clusters=5, brokers=3, bundles=4, pass_s=1, passes=1, load=20, limit_bytes=200_000)


def test_only_the_two_send_more_in_a_phase_with_them() -> None:
    alone, disturbed = (Senders(TINY).records(1, disturbs=one) for one in (False, True))
    assert {*Counter(one.cluster for one in alone).values()} == {4}
    counts = Counter(one.cluster for one in disturbed)
    assert (counts.pop(FLOODED), {*counts.values()}) == (20 * 3 + 1, {4})
    assert disturbed == sorted(disturbed, key=lambda one: one.at_s)
    for some in (alone, disturbed):
        assert sum(one.ends_pass for one in some) == 5


def test_the_records_of_one_are_legal_large_and_deep() -> None:
    reports = [one for one in Senders(TINY).records(1, disturbs=True) if one.cluster == LIMITS]
    for one in reports[:-1]:
        assert 0.9 * TINY.limit_bytes < len(one.value) <= TINY.limit_bytes
        assert b"[" * 390 in one.value
        record = decode(one.value, b"")
        assert peek(one.value) == (LIMITS, record.ts)


def test_the_ratio_is_that_of_the_ninety_ninth_percentiles() -> None:
    said = text(Isolation(100, 200, 110, 230, 1_000, 5, 3))
    assert "ratio of the p99: 1.15" in said
    assert "5 commands of 1,000 counted rounds" in said


@pytest.mark.spark
@pytest.mark.heavy
def test_a_tiny_run_compares_the_bytes() -> None:
    found = measured(TINY)
    assert found.rounds == 3 * 4
    assert min(found.alone_p50, found.disturbed_p50) > 0
    assert json.loads(json.dumps(found.ratio)) > 0

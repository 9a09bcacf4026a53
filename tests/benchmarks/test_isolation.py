"""The benchmark of isolation: what it sends, and what its figures say; a tiny real run."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.isolation import (
    FLOODED,
    LIMITS,
    SICK,
    Isolation,
    Plan,
    Senders,
    Waits,
    measured,
    text,
)
from sinks.wire.codec import decode
from sinks.wire.peek import peek

pytestmark = pytest.mark.lab

TINY = Plan(clusters=3, brokers=3, bundles=4, pass_s=1, passes=1, load=20, limit_bytes=200_000)


def test_the_sick_ones_are_silent_alone_and_send_more_in_a_phase_with_them() -> None:
    senders = Senders(TINY)
    alone, warm = senders.records(1, "alone"), senders.records(1, "warm-up")
    disturbed = senders.records(1, "disturbed")
    assert {*Counter(one.cluster for one in alone).values()} == {4}
    assert {one.cluster for one in warm} - {one.cluster for one in alone} == {*SICK}
    counts = Counter(one.cluster for one in disturbed)
    assert (counts.pop(FLOODED), {*counts.values()}) == (20 * 3 + 1, {4})
    assert disturbed == sorted(disturbed, key=lambda one: one.at_s)
    assert [sum(one.ends_pass for one in some) for some in (alone, disturbed)] == [3, 6]


def test_the_records_of_one_are_legal_large_and_deep() -> None:
    sent = Senders(TINY).records(1, "disturbed")
    reports = [one for one in sent if one.cluster == LIMITS]
    assert len(reports) > 1
    for one in reports[:-1]:
        assert 0.9 * TINY.limit_bytes < len(one.value) <= TINY.limit_bytes
        assert b"[" * 390 in one.value
        record = decode(one.value, b"")
        assert peek(one.value) == (LIMITS, record.ts)


def test_the_ratio_is_that_of_the_ninety_ninth_percentiles() -> None:
    said = text(Isolation(Waits(98, 100, 200, 30), Waits(98, 110, 230, 40), 5, 3))
    assert "ratio of the p99: 1.15" in said
    assert "the 5 commands of the others" in said
    assert "3 rounds of the sick ones were set aside" in said


@pytest.mark.spark
def test_a_tiny_run_compares_the_bytes() -> None:
    found = measured(TINY)
    assert (found.alone.rounds, found.disturbed.rounds) == (2 * 3, 2 * 3)
    assert min(found.alone.p50, found.disturbed.p50) > 0
    assert found.set_aside > 0
    assert json.loads(json.dumps(found.ratio)) > 0

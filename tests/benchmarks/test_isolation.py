"""The benchmark of isolation: what it sends, and what its figures say; a tiny real run."""

import json
from collections import Counter

import pytest

from benchmarks.isolation import FLOODED, SICK, Plan, Senders, measured

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


@pytest.mark.spark
def test_a_tiny_run_compares_the_bytes() -> None:
    found = measured(TINY)
    assert (found.alone.rounds, found.disturbed.rounds) == (2 * 3, 2 * 3)
    assert min(found.alone.p50, found.disturbed.p50) > 0
    assert found.set_aside > 0
    assert json.loads(json.dumps(found.ratio)) > 0

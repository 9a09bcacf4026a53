"""What a second pass of a strategy leaves of the skips of the first."""

from __future__ import annotations

from strategies.cluster.model import Decision, Skip
from strategies.shedding.reason_texts import revised

DECISION = Decision("t/ns/0x00000000_0x80000000", "hot:1", None, "overloaded", "it is overloaded")


def test_brokers_that_take_part_now_or_have_a_newer_reason_leave_their_old_skip() -> None:
    both = Skip("broker", ("hot:1", "calm:1"), "below-threshold", "below the threshold")
    newer = Skip("broker", ("full:1",), "no-bundles", "it has no bundles")
    outdated = Skip("broker", ("full:1",), "below-threshold", "below the threshold")
    cluster = Skip("cluster", ("c",), "balanced", "it is balanced")

    left = revised([both, outdated, cluster], [DECISION], [newer])

    assert [(one.subject, one.names, one.code) for one in left] == [
        ("broker", ("calm:1",), "below-threshold"),
        ("cluster", ("c",), "balanced"),
        ("broker", ("full:1",), "no-bundles"),
    ]

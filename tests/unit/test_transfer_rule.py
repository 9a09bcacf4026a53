"""TransferShedder's round: Java's rule, then one story per repair."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import pytest

from strategies.shedding.transfer.fixed import judge_repaired
from strategies.shedding.transfer.parity import judge_as_java
from strategies.shedding.transfer.settings import (
    BrokerEntry,
    OfferedBundle,
    Stores,
    TransferSettings,
    TransferVerdict,
    statistics,
    transferable,
)
from strategies.shedding.transfer.strategy import memory
from tests.world.brokers import MIB, ns

DEFAULT = TransferSettings()
AT_ONCE = TransferSettings(hit_count=0)
NOW_MS = 10_000_000


def stores(*brokers: tuple[float, float, tuple[float, ...]], **more: object) -> Stores:
    """Brokers b1, b2, …: usage in percent, MiB/s, and the MiB/s of their top bundles, whose names
    count on from broker to broker.
    """
    entries, top, k = {}, {}, 0
    for number, (usage, mib, loads) in enumerate(brokers, start=1):
        name = f"b{number}:1"
        entries[name] = BrokerEntry(usage / 100, mib * MIB, mib * MIB, NOW_MS - 1000)
        if loads:
            top[name] = [
                OfferedBundle(ns(k + index), load * MIB) for index, load in enumerate(loads)
            ]
            k += len(loads)
    return replace(Stores(NOW_MS, entries, top, frozenset(entries)), **more)  # type: ignore[arg-type]


def moved(verdict: TransferVerdict) -> list[tuple[str, float, str | None]]:
    """From, MiB/s, to; in the order of decision."""
    return [
        (move.source[:2], move.throughput / MIB, move.destination and move.destination[:2])
        for move in verdict.moves
    ]


def java(seen: Stores, settings: TransferSettings = DEFAULT) -> TransferVerdict:
    """Of four rounds the last; before it nothing may move unless the settings say at once."""
    hits = 0
    for _ in range(3 if settings.hit_count else 0):
        verdict = judge_as_java(seen, settings, hits)
        assert (verdict.moves, verdict.skipped) == ((), "HitCount")
        hits = verdict.hits
    return judge_as_java(seen, settings, hits)


ONE_HOT_OF_THREE = stores((90, 100, (2, 5, 10, 30)), (30, 30, (5, 8)), (20, 20, (4, 6)))


def test_the_fourth_round_moves_the_lightest_and_one_stays() -> None:
    verdict = java(ONE_HOT_OF_THREE)
    assert moved(verdict) == [("b1", 2, "b3"), ("b1", 5, "b3"), ("b1", 10, "b3")]
    assert {move.reason for move in verdict.moves} == {"Overloaded"}
    assert verdict.published is not None
    assert list(verdict.published) == pytest.approx([0.46667, 0.30912], abs=1e-5)
    assert verdict.hits == 0


UNEVEN = {
    "an even and an almost empty broker beside it": (
        stores((60, 100, (20, 20, 20, 30)), (50, 50, ()), (2, 1, ())),
        [("b1", 20, "b3"), ("b1", 20, "b3")],
    ),
    "a small bundle beside a giant": (
        stores((95, 100, (10, 90)), (20, 10, (10,))),
        [("b1", 10, "b2")],
    ),
    "two large bundles for two small ones": (
        stores((90, 100, (45, 55)), (10, 20, (5, 15))),
        [("b2", 5, "b1"), ("b1", 45, "b2")],
    ),
    "a bundle of 40 of 100": (
        stores((90, 100, (40, 30, 30)), (10, 20, (10, 10))),
        [("b1", 40, "b2")],
    ),
    "an empty broker": (
        stores((100, 80, (20, 20, 20, 20)), (0, 0, ())),
        [("b1", 20, "b2"), ("b1", 20, "b2")],
    ),
    "two equally empty brokers": (
        stores((12, 12, (1, 2, 9)), (2, 2, ()), (1, 1, ()), (1, 1, ())),
        [("b1", 1, "b4"), ("b1", 2, "b4")],
    ),
    "three equal brokers beside it": (
        stores((90, 90, (5, 10, 75)), (55, 55, ()), (55, 55, ()), (55, 55, ())),
        [("b1", 5, "b4"), ("b1", 10, "b4")],
    ),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_worked_examples_of_the_fourth_round(name: str) -> None:
    seen, wanted = UNEVEN[name]
    assert moved(java(seen)) == wanted


def test_one_idle_broker_beside_five_equal_ones() -> None:
    verdict = java(stores(*[(50, 50, (5, 5, 10, 30))] * 5, (0, 0, ())))
    assert moved(verdict) == [("b1", 5, "b6"), ("b1", 5, "b6"), ("b1", 10, "b6")]
    assert {move.reason for move in verdict.moves} == {"Underloaded"}


def test_equal_brokers_are_left_alone() -> None:
    verdict = judge_as_java(stores((50, 50, (10, 10)), (50, 50, (10, 10))), DEFAULT, 7)
    assert (verdict.skipped, verdict.hits) == ("HitCount", 0)


@pytest.mark.parametrize("top", [(100.0,), (90.0, 10.0)])
def test_sole_and_giant_bundles_stay(top: tuple[float, ...]) -> None:
    assert java(stores((95, 100, top), (20, 10, (10,)))).skipped == "NoBundles"


HOT = stores((95, 100, (10, 20, 70)), (20, 10, ()))


@pytest.mark.parametrize(
    ("seen", "skipped"),
    [
        (replace(HOT, unloaded_at_ms={"b1:1": NOW_MS - 2000}), "CoolDown"),
        (replace(HOT, available={"b1:1", "b2:1", "b3:1"}), "NoLoadData"),
        (stores(), "NoBrokers"),
        (replace(HOT, now_ms=NOW_MS + 1_800_000), "OutDatedData"),
    ],
    ids=["just unloaded", "a broker without load data", "no brokers", "old load data"],
)
def test_rounds_that_end_early_leave_the_hit_count_alone(seen: Stores, skipped: str) -> None:
    verdict = judge_as_java(seen, AT_ONCE, 5)
    assert (verdict.skipped, verdict.hits, verdict.published) == (skipped, 5, None)


HOT_AND_IDLE = stores((90, 100, (20, 20, 60)), (20, 10, (5, 5)))


def test_a_bundle_that_moved_a_short_while_ago_stays() -> None:
    verdict = java(replace(HOT_AND_IDLE, cooling={ns(0)}), AT_ONCE)
    assert [(move.bundle, move.destination) for move in verdict.moves] == [(ns(1), "b2:1")]


def test_without_transfers_no_destination_is_named() -> None:
    verdict = java(HOT_AND_IDLE, replace(AT_ONCE, transfer=False))
    assert [(move.bundle, move.destination) for move in verdict.moves] == [(ns(0), None)]


def test_two_pairs_from_both_ends() -> None:
    verdict = java(
        stores((95, 100, (10,) * 4), (90, 95, (10,) * 4), (50, 50, ()), (10, 10, ()), (5, 5, ())),
        AT_ONCE,
    )
    assert moved(verdict) == [("b1", 10, "b5")] * 3 + [("b2", 10, "b4")] * 3
    assert verdict.published is not None
    assert list(verdict.published) == pytest.approx([0.5, 0.38079], abs=1e-5)


def test_without_usage_java_moves_all_but_one_and_fixed_half_the_difference() -> None:
    seen = stores((0, 100, (20, 20, 60)), (0, 10, ()))
    assert moved(java(seen, AT_ONCE)) == [("b1", 20, "b2"), ("b1", 20, "b2")]
    assert moved(judge_repaired(seen, AT_ONCE, 0)) == [("b1", 20, "b2"), ("b1", 20, "b2")]
    small = stores((0, 100, (40, 30, 30)), (0, 10, ()))
    assert moved(java(small, AT_ONCE)) == [("b1", 40, "b2"), ("b1", 30, "b2")]
    assert moved(judge_repaired(small, AT_ONCE, 0)) == [("b1", 40, "b2")]


def test_what_a_swap_brings_back_counts_in_debug_mode_only() -> None:
    seen = stores((90, 100, (46, 10, 44)), (10, 20, (5, 15)))
    swapped = [("b2", 5, "b1"), ("b2", 15, "b1"), ("b1", 46, "b2")]
    assert moved(java(seen, AT_ONCE)) == swapped
    assert moved(java(seen, replace(AT_ONCE, debug=True))) == [*swapped, ("b1", 10, "b2")]
    assert moved(judge_repaired(seen, AT_ONCE, 0)) == [*swapped, ("b1", 10, "b2")]


def test_a_bundle_that_is_listed_twice_is_decided_once() -> None:
    seen = stores((95, 100, (5, 6, 89)), (20, 10, ()))
    twice = replace(
        seen,
        top={
            "b1:1": [
                OfferedBundle(ns(0), 5.0 * MIB),
                OfferedBundle(ns(0), 6.0 * MIB),
                OfferedBundle(ns(1), 89.0 * MIB),
            ]
        },
    )
    assert [move.bundle for move in java(twice, AT_ONCE).moves] == [ns(0)]
    assert [move.bundle for move in judge_repaired(twice, AT_ONCE, 0).moves] == [ns(0)]


def test_fixed_decides_like_java_where_nothing_is_wrong() -> None:
    for seen in (
        ONE_HOT_OF_THREE,
        UNEVEN["an even and an almost empty broker beside it"][0],
        UNEVEN["two large bundles for two small ones"][0],
        UNEVEN["a bundle of 40 of 100"][0],
        UNEVEN["an empty broker"][0],
    ):
        assert moved(judge_repaired(seen, DEFAULT, 3)) == moved(judge_as_java(seen, DEFAULT, 3))


def test_of_equally_empty_brokers_the_first_by_name_takes() -> None:
    assert moved(judge_repaired(UNEVEN["two equally empty brokers"][0], DEFAULT, 3)) == [
        ("b1", 1, "b3"),
        ("b1", 2, "b3"),
    ]


def test_a_broker_that_gave_a_short_while_ago_does_not_stop_the_others() -> None:
    seen = stores(
        (95, 100, (10, 20, 70)),
        (90, 90, (10, 10, 70)),
        (10, 10, ()),
        unloaded_at_ms={"b1:1": NOW_MS - 2000},
    )
    assert java(seen, AT_ONCE).skipped == "CoolDown"
    verdict = judge_repaired(seen, AT_ONCE, 0)
    assert moved(verdict) == [("b2", 10, "b3"), ("b2", 10, "b3")]
    assert verdict.left_out == {"b1:1": "CoolDown"}


def test_brokers_that_are_gone_or_outdated_take_nothing() -> None:
    seen = stores((95, 100, (10, 20, 70)), (20, 10, ()), (0, 0, ()))
    gone = replace(seen, available={"b1:1", "b2:1"})
    assert {move.destination for move in java(gone, AT_ONCE).moves} == {"b3:1"}
    assert {move.destination for move in judge_repaired(gone, AT_ONCE, 0).moves} == {"b2:1"}
    old = replace(
        seen, brokers={**seen.brokers, "b3:1": replace(seen.brokers["b3:1"], updated_at_ms=0)}
    )
    assert {move.destination for move in java(old, AT_ONCE).moves} == {"b3:1"}
    assert judge_repaired(old, AT_ONCE, 0).left_out == {"b3:1": "OutDatedData"}


def test_swaps_are_checked_like_moves() -> None:
    seen = replace(UNEVEN["two large bundles for two small ones"][0], cooling={ns(2)})
    assert ("b2", 5, "b1") in moved(java(seen))
    assert ("b2", 5, "b1") not in moved(judge_repaired(seen, DEFAULT, 3))


def test_figures_that_are_no_numbers_are_left_out() -> None:
    seen = replace(
        HOT,
        brokers={**HOT.brokers, "b3:1": BrokerEntry(nan, 0.0, 0.0, NOW_MS)},
        available={"b1:1", "b2:1", "b3:1"},
    )
    assert judge_repaired(seen, AT_ONCE, 0).left_out == {"b3:1": "NoLoadData"}
    assert judge_repaired(seen, AT_ONCE, 0).moves == judge_repaired(HOT, AT_ONCE, 0).moves


def test_a_round_without_new_figures_is_no_hit() -> None:
    assert judge_repaired(ONE_HOT_OF_THREE, DEFAULT, 2, fresh=False).hits == 2
    assert judge_repaired(ONE_HOT_OF_THREE, DEFAULT, 2).hits == 3


def test_excluded_namespaces_stay_since_4_0_and_idle_bundles_since_3_3() -> None:
    excluding = replace(AT_ONCE, excluded_namespaces="other/ns, t/ns")
    assert java(HOT, excluding).skipped == "NoBundles"
    assert java(HOT, replace(excluding, pulsar_version="3.3")).moves
    idle = stores((95, 100, (0, 10, 90)), (20, 10, ()))
    assert moved(java(idle, AT_ONCE)) == [("b1", 10, "b2")]
    assert moved(java(idle, replace(AT_ONCE, pulsar_version="3.0"))) == [
        ("b1", 0, "b2"),
        ("b1", 10, "b2"),
    ]


def test_up_to_3_2_throughput_alone_is_no_reason() -> None:
    seen = UNEVEN["two equally empty brokers"][0]
    even = replace(
        seen, brokers={name: replace(entry, usage=0.1) for name, entry in seen.brokers.items()}
    )
    assert java(even, AT_ONCE).hits == 1
    assert java(even, replace(AT_ONCE, pulsar_version="3.0")).hits == 0


def test_policies_say_where_a_bundle_may_go() -> None:
    def allowed(settings: TransferSettings, candidates: set[str]) -> bool:
        return transferable(settings, lambda bundle: bundle == ns(0), lambda _: candidates)(
            ns(0), "b1", "b2"
        )

    assert not allowed(DEFAULT, {"b1", "b2"})
    free = replace(DEFAULT, with_policies=True)
    assert [allowed(free, {"b1", "b2"}), allowed(free, {"b1", "b3"})] == [True, False]
    assert allowed(replace(free, transfer=False), {"b2"})
    assert not transferable(replace(free, transfer=False), lambda _: False, lambda _: {"b1"})(
        ns(1), "b1", "b1"
    )
    assert (
        judge_repaired(replace(HOT, may_move=lambda *_: False), AT_ONCE, 0).skipped == "NoBundles"
    )


def test_statistics_after_a_move_are_those_of_the_usages_after_it() -> None:
    before, after = statistics([0.875, 0.5, 0.125]), statistics([0.625, 0.5, 0.375])
    moved = before.after(0.875, 0.125, 0.25)
    assert (moved.average, moved.squares, moved.count) == (after.average, after.squares, 3)
    assert moved.std == pytest.approx(after.std)


def test_a_warm_start_reads_one_sample_more_than_hits_are_needed() -> None:
    learned = memory(TransferSettings(hit_count=3, delay_s=7.0))

    assert (learned.samples, learned.decisions_ms) == (4, 7_000)

"""TransferShedder: one story per repair, and the live round. The vectors have Java's rule."""

from dataclasses import replace
from math import nan

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.settings import Mode
from strategies.shedding.contract import Shedding
from strategies.shedding.transfer.exchange_loop import (
    BrokerEntry,
    OfferedBundle,
    Stores,
    TransferVerdict,
    statistics,
    transferable,
)
from strategies.shedding.transfer.fixed import judge_repaired
from strategies.shedding.transfer.parity import judge_as_java
from strategies.shedding.transfer.registry_entry import memory
from strategies.shedding.transfer.settings import TransferSettings
from tests.world.brokers import MIB, WEIGHTS, Load, broker, bundles, ns, shedder, view
from tests.world.sheddings import codes, ewmas, picked, play, skip_of

DEFAULT = TransferSettings()
AT_ONCE = TransferSettings(hit_count=0)
NOW_MS = 10_000_000


def stores(*brokers: tuple[float, float, tuple[float, ...]], **more: object) -> Stores:
    """Brokers b1, b2, …: usage in percent, MiB/s, and the MiB/s of their top bundles, by number."""
    entries, top, k = {}, {}, 0
    for number, (usage, mib, loads) in enumerate(brokers, start=1):
        name = f"b{number}:1"
        entries[name] = BrokerEntry(usage / 100, mib * MIB, mib * MIB, NOW_MS - 1000)
        if loads:
            top[name] = [
                OfferedBundle(ns(k + index), load * MIB) for index, load in enumerate(loads)
            ]
            k += len(loads)
    return replace(Stores(NOW_MS, entries, top.get, frozenset(entries)), **more)  # type: ignore[arg-type]


def moved(verdict: TransferVerdict) -> list[tuple[str, float, str | None]]:
    """From, MiB/s, to; in the order of decision."""
    return [
        (move.source[:2], move.throughput / MIB, move.destination and move.destination[:2])
        for move in verdict.moves
    ]


def java(seen: Stores, settings: TransferSettings = AT_ONCE) -> TransferVerdict:
    return judge_as_java(seen, settings, 0)


def ours(seen: Stores, settings: TransferSettings = AT_ONCE) -> TransferVerdict:
    return judge_repaired(seen, settings, 0)


ONE_HOT_OF_THREE = stores((90, 100, (2, 5, 10, 30)), (30, 30, (5, 8)), (20, 20, (4, 6)))
NEARLY_EMPTY = stores((60, 100, (20, 20, 20, 30)), (50, 50, ()), (2, 1, ()))
TWO_LARGE = stores((90, 100, (45, 55)), (10, 20, (5, 15)))
LARGE = stores((90, 100, (40, 30, 30)), (10, 20, (10, 10)))
EMPTY = stores((100, 80, (20, 20, 20, 20)), (0, 0, ()))
TWO_EMPTY = stores((12, 12, (1, 2, 9)), (2, 2, ()), (1, 1, ()), (1, 1, ()))
HOT = stores((95, 100, (10, 20, 70)), (20, 10, ()))


def test_without_usage_java_moves_all_but_one_and_fixed_half_the_difference() -> None:
    seen = stores((0, 100, (20, 20, 60)), (0, 10, ()))
    assert moved(java(seen)) == moved(ours(seen)) == [("b1", 20, "b2"), ("b1", 20, "b2")]
    small = stores((0, 100, (40, 30, 30)), (0, 10, ()))
    assert moved(java(small)) == [("b1", 40, "b2"), ("b1", 30, "b2")]
    assert moved(ours(small)) == [("b1", 40, "b2")]


def test_what_a_swap_brings_back_counts_in_debug_mode_only() -> None:
    seen = stores((90, 100, (46, 10, 44)), (10, 20, (5, 15)))
    swapped = [("b2", 5, "b1"), ("b2", 15, "b1"), ("b1", 46, "b2")]
    assert moved(java(seen)) == swapped
    in_debug_mode = java(seen, replace(AT_ONCE, debug=True))
    assert moved(in_debug_mode) == moved(ours(seen)) == [*swapped, ("b1", 10, "b2")]


def test_a_bundle_that_is_listed_twice_is_decided_once() -> None:
    seen = stores((95, 100, (5, 6, 89)), (20, 10, ()))
    offered = [OfferedBundle(ns(k), mib * MIB) for k, mib in ((0, 5.0), (0, 6.0), (1, 89.0))]
    twice = replace(seen, top={"b1:1": offered}.get)
    for verdict in (java(twice), ours(twice)):
        assert [move.bundle for move in verdict.moves] == [ns(0)]


def test_fixed_decides_like_java_where_nothing_is_wrong() -> None:
    for seen in (ONE_HOT_OF_THREE, NEARLY_EMPTY, TWO_LARGE, LARGE, EMPTY):
        assert moved(judge_repaired(seen, DEFAULT, 3)) == moved(judge_as_java(seen, DEFAULT, 3))


def test_of_equally_empty_brokers_the_first_by_name_takes() -> None:
    assert moved(ours(TWO_EMPTY)) == [("b1", 1, "b3"), ("b1", 2, "b3")]


def test_a_broker_that_gave_a_short_while_ago_does_not_stop_the_others() -> None:
    gave = {"b1:1": NOW_MS - 2000}
    two_hot = (95, 100, (10, 20, 70)), (90, 90, (10, 10, 70))
    seen = stores(*two_hot, (10, 10, ()), unloaded_at_ms=gave)
    assert java(seen).skipped == "CoolDown"
    verdict = ours(seen)
    assert moved(verdict) == [("b2", 10, "b3"), ("b2", 10, "b3")]
    assert verdict.left_out == {"b1:1": "CoolDown"}


def test_outdated_brokers_take_nothing_but_in_java_even_those_that_are_gone_do() -> None:
    seen = stores((95, 100, (10, 20, 70)), (20, 10, ()), (0, 0, ()))
    gone = replace(seen, available={"b1:1", "b2:1"})
    assert {move.destination for move in java(gone).moves} == {"b3:1"}
    old = replace(
        seen, brokers={**seen.brokers, "b3:1": replace(seen.brokers["b3:1"], updated_at_ms=0)}
    )
    assert {move.destination for move in java(old).moves} == {"b3:1"}
    assert ours(old).left_out == {"b3:1": "OutDatedData"}


def test_swaps_are_checked_like_moves() -> None:
    seen = replace(TWO_LARGE, cooling={ns(2)})
    assert ("b2", 5, "b1") in moved(java(seen))
    assert ("b2", 5, "b1") not in moved(ours(seen))


def test_figures_that_are_no_numbers_are_left_out() -> None:
    entries = {**HOT.brokers, "b3:1": BrokerEntry(nan, 0.0, 0.0, NOW_MS)}
    seen = replace(HOT, brokers=entries, available=set(entries))
    assert ours(seen).left_out == {"b3:1": "NoLoadData"}
    assert ours(seen).moves == ours(HOT).moves


def test_a_round_without_new_figures_is_no_hit() -> None:
    assert judge_repaired(ONE_HOT_OF_THREE, DEFAULT, 2, fresh=False).hits == 2
    assert judge_repaired(ONE_HOT_OF_THREE, DEFAULT, 2).hits == 3


def test_excluded_namespaces_stay_since_4_0_and_idle_bundles_since_3_3() -> None:
    excluding = replace(AT_ONCE, excluded_namespaces="other/ns, t/ns")
    assert java(HOT, excluding).skipped == "NoBundles"
    assert java(HOT, replace(excluding, pulsar_version="3.3")).moves
    idle = stores((95, 100, (0, 10, 90)), (20, 10, ()))
    assert moved(java(idle)) == [("b1", 10, "b2")]
    as_3_0 = java(idle, replace(AT_ONCE, pulsar_version="3.0"))
    assert moved(as_3_0) == [("b1", 0, "b2"), ("b1", 10, "b2")]


def test_up_to_3_2_throughput_alone_is_no_reason() -> None:
    entries = {name: replace(entry, usage=0.1) for name, entry in TWO_EMPTY.brokers.items()}
    even = replace(TWO_EMPTY, brokers=entries)
    assert java(even).hits == 1
    assert java(even, replace(AT_ONCE, pulsar_version="3.0")).hits == 0


def test_policies_say_where_a_bundle_may_go() -> None:
    assert transferable(DEFAULT, {"b1", "b2"}, "b1", "b2")
    assert not transferable(DEFAULT, {"b1", "b3"}, "b1", "b2")
    unloaded = replace(DEFAULT, transfer=False)
    assert transferable(unloaded, {"b2"}, "b1", "b2")
    assert not transferable(unloaded, {"b1"}, "b1", "b1")
    assert ours(replace(HOT, may_move=lambda *_: False)).skipped == "NoBundles"


def test_statistics_after_a_move_are_those_of_the_usages_after_it() -> None:
    before, after = statistics([0.875, 0.5, 0.125]), statistics([0.625, 0.5, 0.375])
    moved = before.after(0.875, 0.125, 0.25)
    assert (moved.average, moved.squares, moved.count) == (after.average, after.squares, 3)
    assert moved.std == pytest.approx(after.std)


def test_a_warm_start_reads_one_sample_more_than_hits_are_needed() -> None:
    learned = memory(TransferSettings(hit_count=3, delay_s=7.0))

    assert (learned.samples, learned.decisions_ms) == (4, 7_000)


THREE_BROKERS = (
    broker("b1", 90.0, 100.0, bundles(2, 5, 10, 30)),
    broker("b2", 30.0, 30.0, bundles(5, 8, first=4)),
    broker("b3", 20.0, 20.0, bundles(4, 6, first=8)),
)


def rounds(
    *views: ClusterView, mode: Mode = "fixed", settings: TransferSettings = AT_ONCE
) -> list[Shedding]:
    return play(shedder("transfer", settings, WEIGHTS, mode), *views)


def at_once(*brokers: BrokerLoad, mode: Mode = "fixed") -> Shedding:
    return rounds(view(*brokers), mode=mode)[0]


def test_swaps_name_both_directions() -> None:
    full = broker("b1", 90.0, 100.0, bundles(45, 55))
    empty = broker("b2", 10.0, 20.0, bundles(5, 15, first=2))
    assert [
        (decision.bundle, decision.destination, decision.code)
        for decision in at_once(full, empty).decisions
    ] == [(ns(2), "b1:1", "swap"), (ns(0), "b2:1", "overloaded")]


@pytest.mark.parametrize(("mode", "last"), [("fixed", 0.77), ("parity", 0.743)])
def test_usage_is_averaged_and_only_java_counts_a_sample_again(mode: Mode, last: float) -> None:
    first, second = broker("b1", 80.0), broker("b1", 50.0)
    other, same = broker("b2", 50.0), broker("b1", 50.0, fresh=False)
    found = rounds(view(first, other), view(second, other), view(same, other), mode=mode)
    assert [ewmas(round_)["b1:1"] for round_ in found] == pytest.approx([0.8, 0.77, last])


def test_excluded_namespaces_system_bundles_and_cooling_ones_stay() -> None:
    system, quiet = "pulsar/b1:8080/0x0_0xf", "quiet/ns/0x0_0xf"
    owned = {system: Load(3.0), quiet: Load(4.0), **bundles(5, 6, 7, 60)}
    seen = view(broker("b1", 90.0, 100.0, owned), broker("b2", 10.0), cooling=(ns(0),))
    (round_,) = rounds(seen, settings=replace(AT_ONCE, excluded_namespaces="quiet/ns"))
    assert picked(round_) == {"b1:1": [ns(1), ns(2)]}
    stays = {system: "system-bundle", quiet: "excluded-namespace", ns(0): "cooling-down"}
    assert codes(round_) == {**stays, ns(3): "not-needed"}


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ((broker("b1", 50.0, 50.0, bundles(25, 25)), broker("b2", 50.0, 50.0)), "even"),
        ((broker("b1", 90.0, 50.0, bundles(50)), broker("b2", 10.0, 10.0)), "too-few-bundles"),
        ((broker("b1", 90.0, 50.0), broker("b2", 10.0, 10.0)), "no-bundle-figures"),
        ((broker("b1", 90.0, 50.0),), "nobody-to-judge"),
    ],
)
def test_a_round_that_moves_nothing_says_why(seen: tuple[BrokerLoad, ...], code: str) -> None:
    assert codes(at_once(*seen)) == {"c": code}


@pytest.mark.parametrize(("mode", "std"), [("fixed", 0.0), ("parity", None)])
def test_a_spread_that_rounding_swallows_is_unknown_in_java(mode: Mode, std: float | None) -> None:
    """The mean of squares minus the square of the mean is a little below 0."""
    skip = skip_of(at_once(*(broker(name, 10.0) for name in ("b1", "b2", "b3")), mode=mode), "c")
    assert skip.evidence["std"] == (None if std is None else pytest.approx(std, abs=1e-15))
    assert ("rounding leaves no standard deviation" in skip.text) == (std is None)


def averaged(load: BrokerLoad, usage: float, mib: float, updated_s: float = 0.0) -> BrokerLoad:
    """The broker as the extensible load manager tells of it, with averages of its own."""
    own = replace(load.figures, usage_average=usage, throughput_average=mib * MIB)
    return replace(load, figures=replace(own, updated_at_ms=int(updated_s * 1000)))


def at(seconds: float, *brokers: BrokerLoad) -> ClusterView:
    return ClusterView("c", int(seconds * 1000), brokers)


@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_a_brokers_own_averages_decide_where_its_report_has_them(mode: Mode) -> None:
    now = broker("b1", 99.0, 100.0, bundles(2, 5, 10, 30)), broker("b2", 1.0, 20.0)
    found = at_once(*(averaged(one, 0.5, 50.0) for one in now), mode=mode)
    assert codes(found) == {"c": "even"}
    assert ewmas(found) == {"b1:1": 0.5, "b2:1": 0.5}


@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_averaged_throughput_says_who_is_underloaded(mode: Mode) -> None:
    """Now nearly idle, but not on the average: the newest figure alone is no reason."""
    busy, idle = broker("b1", 55.0, 100.0, bundles(2, 5, 93)), broker("b2", 45.0, 5.0)
    assert picked(at_once(busy, idle, mode=mode))
    before = view(broker("b1", 55.0, 100.0), broker("b2", 45.0, 100.0))
    assert codes(rounds(before, view(busy, idle), mode=mode)[1]) == {"c": "even"}
    on_average = averaged(busy, 0.55, 100.0), averaged(idle, 0.45, 90.0)
    assert codes(at_once(*on_average, mode=mode)) == {"c": "even"}


def test_a_broker_that_gave_rests_until_its_figures_are_late_enough() -> None:
    hot = broker("b1", 90.0, 100.0, bundles(2, 5, 10, 30))
    others = broker("b2", 60.0, 60.0, bundles(20, 40, first=4)), broker("b3", 10.0, 10.0)
    told = rounds(*(at(seconds, hot, *others) for seconds in (0, 60, 180)))
    assert "b1:1" in picked(told[0])
    assert codes(told[1])["b1:1"] == "cooling-down"
    assert "b1:1" not in picked(told[1])
    assert "b1:1" in picked(told[2])


def test_in_parity_mode_everybody_rests_with_it() -> None:
    told = rounds(*(at(seconds, *THREE_BROKERS) for seconds in (0, 60, 180)), mode="parity")
    assert [bool(picked(round_)) for round_ in told] == [True, False, True]
    assert codes(told[1]) == {"c": "cooling-down"}


def test_load_data_that_are_too_old_are_not_used() -> None:
    own, hot, idle = averaged(broker("old", 90.0), 0.9, 50.0), *THREE_BROKERS[:2]
    for old in (own, replace(idle, broker="old:1", reported_at_ms=0)):
        (told,) = rounds(at(61, old, hot, idle), settings=replace(AT_ONCE, ttl_s=60))
        assert codes(told)["old:1"] == "outdated"


def test_in_fixed_mode_a_broker_whose_clock_is_ahead_rests_all_the_same() -> None:
    figures = ((0.9, 100.0), (0.3, 30.0), (0.2, 20.0))
    hot = [averaged(load, *own, 9999.0) for load, own in zip(THREE_BROKERS, figures, strict=True)]
    told = rounds(at(0, *hot), at(60, *hot))
    assert "b1:1" in picked(told[0])
    assert codes(told[1])["b1:1"] == "cooling-down"

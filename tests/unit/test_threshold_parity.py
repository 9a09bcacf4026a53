"""ThresholdShedder as Pulsar 4.2.4 runs it: its decisions and their figures."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from pulsar_rebalancer.lab.conformance.case_data import only_active
from strategies.cluster.model import BrokerLoad, ClusterView, Resource
from strategies.shedding.contract import Shedding
from strategies.shedding.threshold.parity import ParityThresholdShedder
from strategies.shedding.threshold.settings import ThresholdSettings
from tests.unit.threshold_clusters import forty_ten_ten, hot_then_balanced
from tests.world.brokers import (
    MIB,
    WEIGHTS,
    Load,
    broker,
    bundles,
    codes,
    ewmas,
    ns,
    picked,
    play,
    skip_of,
    view,
)


def shedder(
    *, lower_boundary: bool = False, min_throughput_mib: float = 10.0, history: float = 0.9
) -> ParityThresholdShedder:
    return ParityThresholdShedder(
        ThresholdSettings(10.0, history, min_throughput_mib, lower_boundary), WEIGHTS
    )


def shed(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    (round_,) = play(shedder(), view(*brokers, cooling=cooling))
    return round_


def blinded(load: BrokerLoad) -> BrokerLoad:
    """A broker all of whose resources say NaN."""
    no = Resource(nan, 100.0)
    return replace(
        load,
        figures=replace(load.figures, cpu=no, direct_memory=no, bandwidth_in=no, bandwidth_out=no),
    )


def test_sheds_the_heaviest_bundle_when_it_covers_the_need() -> None:
    round_ = shed(*forty_ten_ten(broker("b1", 40.0, 100.0, bundles(20, 16, 12, 10))))
    assert picked(round_) == {"b1:1": [ns(0)]}
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(15 * MIB)
    assert codes(round_) == {
        "b2:1": "below-threshold",
        "b3:1": "below-threshold",
        ns(1): "not-needed",
        ns(2): "not-needed",
        ns(3): "not-needed",
    }


def test_ten_loaded_brokers_and_an_idle_one_are_left_alone() -> None:
    loaded = [broker(f"b{number}", 80.0, 100.0, unknown=2) for number in range(1, 11)]
    assert not shed(*loaded, broker("b11", 0.0)).decisions


def test_the_lower_boundary_finds_too_little_traffic() -> None:
    loaded = [broker(f"b{number}", 80.0, 100.0, unknown=2) for number in range(1, 11)]
    (round_,) = play(shedder(lower_boundary=True), view(*loaded, broker("b11", 0.0)))
    assert not round_.decisions
    (skip,) = [skip for skip in round_.skips if skip.code == "too-little-traffic"]
    assert skip.evidence["to_shed"] == pytest.approx(5 * MIB)


def test_the_lower_boundary_relieves_the_fullest_broker() -> None:
    loaded = [
        broker(f"b{number}", 80.0, 400.0, unknown=3) for number in range(1, 11) if number != 7
    ]
    fullest = broker("b7", 81.0, 400.0, bundles(180, 120, 100))
    (round_,) = play(shedder(lower_boundary=True), view(*loaded, fullest, broker("b11", 0.0)))
    assert picked(round_) == {"b7:1": [ns(0)]}
    assert round_.decisions[0].code == "lower-boundary"
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(20 * MIB)


def test_the_lagging_average_sheds_three_times_more_after_balance_was_reached() -> None:
    first, later = hot_then_balanced()
    rounds = play(shedder(), first, later, later, later, later)
    assert [ewmas(round_)["b1:1"] for round_ in rounds] == pytest.approx(
        [0.8, 0.77, 0.743, 0.7187, 0.69683]
    )
    assert [ewmas(round_)["b2:1"] for round_ in rounds[:4]] == pytest.approx(
        [0.2, 0.23, 0.257, 0.2813]
    )
    assert [picked(round_) for round_ in rounds] == [{"b1:1": [ns(0)]}] * 4 + [{}]
    needs = [float(str(round_.decisions[0].evidence["to_shed"])) / MIB for round_ in rounds[:4]]
    assert needs == pytest.approx([25, 13.2, 11.58, 10.122])
    assert float(str(skip_of(rounds[4], "b1:1").evidence["to_shed"])) / MIB == pytest.approx(
        8.81, abs=0.01
    )


@pytest.mark.parametrize("cpu", [0.0, 50.0])
def test_equal_brokers_are_left_alone(cpu: float) -> None:
    round_ = shed(broker("b1", cpu, 100.0, bundles(50, 50)), broker("b2", cpu, 100.0))
    assert not round_.decisions
    assert ("no-load" in codes(round_).values()) == (cpu == 0)


def test_little_traffic_is_not_worth_it() -> None:
    round_ = shed(*forty_ten_ten(broker("b1", 40.0, 40.0, bundles(30, 10))))
    assert codes(round_)["b1:1"] == "too-little-traffic"


@pytest.mark.parametrize(
    ("high", "low", "sheds"), [(30.0, 10.0, True), (35.0, 15.0, False), (45.0, 25.0, True)]
)
def test_exactly_on_the_threshold_float_noise_decides(high: float, low: float, sheds: bool) -> None:
    round_ = shed(broker("b1", high, 200.0, bundles(30, 10)), broker("b2", low, 20.0))
    assert picked(round_) == ({"b1:1": [ns(0)]} if sheds else {})


def test_a_broker_without_a_number_counts_as_idle() -> None:
    round_ = shed(
        broker("b1", nan, 100.0, bundles(50, 50)),
        broker("b2", 10.0, 100.0, bundles(50, 50, first=4)),
    )
    assert not round_.decisions
    assert ewmas(round_) == {"b1:1": 0.0, "b2:1": pytest.approx(0.1)}


@pytest.mark.parametrize(("lower_boundary", "history"), [(False, 0.77), (True, 0.743)])
def test_a_quiet_round_moves_the_average_twice_with_the_lower_boundary_on(
    lower_boundary: bool, history: float
) -> None:
    high, fallen = (
        view(broker("b1", 80.0), broker("b2", 75.0)),
        view(broker("b1", 50.0), broker("b2", 75.0)),
    )
    rounds = play(shedder(lower_boundary=lower_boundary), high, fallen)
    assert ewmas(rounds[1])["b1:1"] == pytest.approx(history)


def average_of_b1(*views: ClusterView) -> float:
    """After one round of each."""
    return ewmas(play(shedder(), *views)[-1])["b1:1"]


def test_an_average_of_zero_is_history() -> None:
    before = view(broker("b1", 0.0), broker("b2", 80.0))
    after = view(broker("b1", 50.0), broker("b2", 80.0))
    assert average_of_b1(before, after) == pytest.approx(0.05)


def test_averages_of_departed_brokers_are_forgotten() -> None:
    (round_,) = play(shedder(), view(broker("b1", 40.0), broker("b2", 40.0)))
    kept = only_active(round_.memory, ["b2:1"], "ewma").brokers
    assert [name for name, one in kept.items() if one.ewma is not None] == ["b2:1"]


def test_an_infinite_average_stays() -> None:
    rounds = play(shedder(), view(blinded(broker("b1", 0.0))), view(broker("b1", 50.0)))
    assert [ewmas(round_)["b1:1"] for round_ in rounds] == [-inf, -inf]


def test_one_blind_broker_makes_the_others_unload_everything() -> None:
    blind = blinded(broker("b1", 0.0, 100.0, bundles(10, 10)))
    round_ = shed(blind, broker("b2", 50.0, 100.0, bundles(10, 10, first=2)))
    assert picked(round_) == {"b2:1": [ns(3), ns(2)], "b1:1": [ns(0)]}


def test_heartbeats_of_three_parts_are_shed_like_any_other() -> None:
    hot = {"pulsar/c/b1:8080/0x00000000_0xffffffff": Load(20.0), **bundles(10, 10)}
    assert picked(shed(*forty_ten_ten(broker("b1", 40.0, 100.0, hot)))) == {
        "b1:1": ["pulsar/c/b1:8080/0x00000000_0xffffffff"]
    }


def test_a_sole_bundle_an_empty_broker_and_unknown_bundles_are_told_apart() -> None:
    assert (
        codes(shed(*forty_ten_ten(broker("b1", 40.0, 100.0, bundles(100)))))["b1:1"]
        == "sole-bundle"
    )
    assert codes(shed(*forty_ten_ten(broker("b1", 40.0, 100.0))))["b1:1"] == "no-bundles"
    assert not shed(*forty_ten_ten(broker("b1", 40.0, 100.0, unknown=3))).decisions


def test_bundles_that_moved_a_short_while_ago_stay() -> None:
    round_ = shed(*forty_ten_ten(broker("b1", 40.0, 100.0, bundles(20, 16, 12))), cooling=(ns(0),))
    assert picked(round_) == {"b1:1": [ns(1)]}
    assert codes(round_)[ns(0)] == "cooling-down"


def test_equal_bundles_leave_in_the_order_of_javas_hash_maps() -> None:
    round_ = shed(*forty_ten_ten(broker("b1", 60.0, 100.0, bundles(10, 10, 10, 10))))
    assert picked(round_) == {"b1:1": [ns(3), ns(0), ns(1)]}


def test_only_a_tie_that_matters_asks_for_the_names_of_all_bundles() -> None:
    def no_names() -> list[str]:
        raise AssertionError("asked")

    hot = broker("b1", 40.0, 100.0, bundles(20, 12, 12))
    seen = ClusterView("c", 0, forty_ten_ten(hot), frozenset(), no_names)
    assert picked(play(shedder(), seen)[0]) == {"b1:1": [ns(0)]}


# Published figures of real clusters: usage, mean, fraction and the traffic to shed as their logs
# printed them.


def test_published_1_five_brokers() -> None:
    others = [
        broker(f"b{number}", cpu, 100.0)
        for number, cpu in enumerate((14.6446, 17.8075, 13.4427, 11.9238), start=1)
    ]
    traffic = 222.96077 / 1.048576
    round_ = shed(*others, broker("hot", 28.9512, traffic, bundles(40, 40)))
    assert round_.decisions[0].evidence["mean"] == pytest.approx(0.173539, abs=1e-6)
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(14.70925e6, rel=1e-4)


def test_published_2_two_brokers() -> None:
    traffic = 203.83135 / 1.048576
    round_ = shed(broker("cold", 53.4875, 10.0), broker("hot", 78.0947, traffic, bundles(40, 40)))
    assert round_.decisions[0].evidence["mean"] == pytest.approx(0.657911, abs=1e-6)
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(14.88694e6, rel=1e-4)


def test_published_5_the_average_turns_the_imbalance_round() -> None:
    unequal, equal = (
        view(broker("b1", 90.0), broker("b2", 10.0)),
        view(broker("b1", 50.0), broker("b2", 50.0)),
    )
    turned = view(broker("b1", 14.0), broker("b2", 86.0))
    rounds = play(shedder(), unequal, equal, turned)
    assert [ewmas(round_)["b1:1"] for round_ in rounds] == pytest.approx([0.9, 0.86, 0.788])
    assert [ewmas(round_)["b2:1"] for round_ in rounds] == pytest.approx([0.1, 0.14, 0.212])


def test_published_6_eighty_then_fifty_averages_seventy_seven() -> None:
    eighty = view(broker("b1", 80.0), broker("b2", 80.0))
    fifty = view(broker("b1", 50.0), broker("b2", 50.0))
    assert average_of_b1(eighty, fifty) == pytest.approx(0.77)


def test_published_8_ten_at_eighty_and_one_at_five() -> None:
    round_ = shed(
        *(broker(f"b{number}", 80.0, 500.0, unknown=2) for number in range(10)), broker("idle", 5.0)
    )
    assert not round_.decisions
    assert skip_of(round_, "b3:1").evidence["mean"] == pytest.approx(0.7318, abs=1e-4)


def test_published_11_ten_gigabytes_at_eighty_against_sixty() -> None:
    round_ = shed(
        broker("b1", 80.0, 10_240.0, bundles(1600, 1600)), broker("b2", 50.0), broker("b3", 50.0)
    )
    assert round_.decisions[0].evidence["mean"] == pytest.approx(0.6)
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(0.15 * 10_240 * MIB, rel=1e-6)

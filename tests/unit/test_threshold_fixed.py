"""ThresholdShedder with its defects repaired: one story per repair, and what the repairs must not
change.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from strategies.cluster.memory import BrokerMemory, Memory
from strategies.cluster.model import BrokerLoad, ClusterView, Resource
from strategies.shedding.contract import Shedding
from strategies.shedding.threshold.fixed import ThresholdShedder
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

SHEDDER = ThresholdShedder(ThresholdSettings(), WEIGHTS)
LOWER = ThresholdShedder(ThresholdSettings(lower_boundary=True), WEIGHTS)


def shed(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    return play(SHEDDER, view(*brokers, cooling=cooling))[0]


def with_cpu(load: BrokerLoad, cpu: float) -> BrokerLoad:
    no = Resource(cpu, 100.0)
    return replace(
        load,
        figures=replace(load.figures, cpu=no, direct_memory=no, bandwidth_in=no, bandwidth_out=no),
    )


@pytest.mark.parametrize(
    ("high", "low", "sheds"),
    [(40.0, 10.0, True), (29.0, 10.0, False), (35.0, 15.0, False), (45.0, 25.0, True)],
)
def test_the_rule_itself_is_javas(high: float, low: float, sheds: bool) -> None:
    round_ = shed(broker("b1", high, 200.0, bundles(30, 10)), broker("b2", low, 20.0))
    assert picked(round_) == ({"b1:1": [ns(0)]} if sheds else {})


def test_are_answered_as_by_java() -> None:
    assert picked(shed(*forty_ten_ten(broker("b1", 40.0, 100.0, bundles(20, 16, 12, 10))))) == {
        "b1:1": [ns(0)]
    }
    loaded = [
        broker(f"b{number}", 80.0, 400.0, unknown=3) for number in range(1, 11) if number != 7
    ]
    seen = view(*loaded, broker("b7", 81.0, 400.0, bundles(180, 120, 100)), broker("b11", 0.0))
    assert picked(play(LOWER, seen)[0]) == {"b7:1": [ns(0)]}


@pytest.mark.parametrize(("sizes", "left"), [((180, 120), {"b7:1": [ns(0)]}), ((300,), {})])
def test_the_lower_boundary_takes_from_a_broker_of_two_bundles_and_leaves_a_sole_one(
    sizes: tuple[int, ...], left: object
) -> None:
    loaded = [
        broker(f"b{number}", 80.0, 400.0, unknown=1) for number in range(1, 11) if number != 7
    ]
    assert (
        picked(
            play(
                LOWER, view(*loaded, broker("b7", 81.0, 400.0, bundles(*sizes)), broker("b11", 0.0))
            )[0]
        )
        == left
    )


def test_a_reason_tells_the_figures_in_one_sentence() -> None:
    (decision,) = shed(*forty_ten_ten(broker("b1", 40.0, 100.0, bundles(20, 16)))).decisions
    assert decision.text == (
        "b1:1 averages 40.0 %, the cluster 20.0 %, and 10 points above that is the limit: "
        "20.0 MiB/s of the 15.0 MiB/s to shed leave with this bundle for a broker that "
        "placement picks"
    )


def test_nothing_more_is_shed_once_balance_is_reached() -> None:
    first, later = hot_then_balanced()
    rounds = play(SHEDDER, first, *[later] * 4)
    assert [picked(round_) for round_ in rounds] == [{"b1:1": [ns(1)]}, {}, {}, {}, {}]
    assert skip_of(rounds[1], "b1:1").code == "already-fell"
    assert "77.0 %" in skip_of(rounds[1], "b1:1").text


def test_the_smaller_of_average_and_newest_usage_decides_how_much_leaves() -> None:
    memory = Memory({"b1:1": BrokerMemory(ewma=0.9), "b2:1": BrokerMemory(ewma=0.1)})
    seen = view(broker("b1", 65.0, 100.0, bundles(10, 8, 6, 4)), broker("b2", 35.0))
    (round_,) = play(SHEDDER, seen, memory=memory)
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(10 * MIB)


def test_published_5_the_imbalance_is_not_turned_round() -> None:
    unequal = view(
        broker("b1", 90.0, 90.0, bundles(*[9] * 10)),
        broker("b2", 10.0, 10.0, bundles(10, first=12)),
    )
    equal = view(
        broker("b1", 50.0, 50.0, bundles(*[9] * 6)),
        broker("b2", 50.0, 50.0, bundles(9, 9, 9, 9, 10, first=10)),
    )
    rounds = play(SHEDDER, unequal, equal, equal, equal)
    assert rounds[0].decisions
    assert not any(round_.decisions for round_ in rounds[1:])


def test_a_bundle_that_would_turn_the_imbalance_round_gives_way_to_one_that_does_not() -> None:
    round_ = shed(broker("b1", 80.0, 100.0, bundles(60, 26, 14)), broker("b2", 20.0))
    assert picked(round_) == {"b1:1": [ns(1)]}
    assert codes(round_)[ns(0)] == "too-big"


def test_where_every_bundle_is_too_big_the_lightest_that_lowers_the_peak_leaves() -> None:
    assert picked(shed(broker("b1", 80.0, 100.0, bundles(60, 40)), broker("b2", 20.0))) == {
        "b1:1": [ns(1)]
    }
    round_ = shed(broker("b1", 80.0, 100.0, bundles(98, 97)), broker("b2", 20.0))
    assert picked(round_) == {}
    assert codes(round_)[ns(0)] == "too-big"


def test_idle_bundles_relieve_nobody() -> None:
    round_ = shed(*forty_ten_ten(broker("b1", 40.0, 100.0, bundles(0, 0))))
    assert picked(round_) == {}
    assert codes(round_)[ns(0)] == "idle"


def test_a_quiet_round_moves_the_average_once() -> None:
    rounds = play(
        LOWER,
        view(broker("b1", 80.0), broker("b2", 75.0)),
        view(broker("b1", 50.0), broker("b2", 75.0)),
    )
    assert ewmas(rounds[1])["b1:1"] == pytest.approx(0.77)


def test_a_repeated_report_does_not_move_the_average() -> None:
    seen = view(broker("b1", 50.0, fresh=False), broker("b2", 75.0))
    rounds = play(SHEDDER, view(broker("b1", 80.0), broker("b2", 75.0)), seen, seen)
    assert ewmas(rounds[2])["b1:1"] == pytest.approx(0.8)


def test_the_first_figures_count_even_when_they_are_old() -> None:
    assert ewmas(shed(broker("b1", 80.0, fresh=False), broker("b2", 75.0)))[
        "b1:1"
    ] == pytest.approx(0.8)


@pytest.mark.parametrize("cpu", [nan, inf])
def test_a_broker_without_a_finite_usage_is_left_out(cpu: float) -> None:
    blind = with_cpu(broker("b1", 0.0, 100.0, bundles(10, 10)), cpu)
    round_ = shed(blind, broker("b2", 50.0, 100.0, bundles(10, 10, first=2)), broker("b3", 50.0))
    assert picked(round_) == {}
    assert codes(round_) == {
        "b1:1": "unusable-figures",
        "b2:1": "below-threshold",
        "b3:1": "below-threshold",
    }
    assert set(ewmas(round_)) == {"b2:1", "b3:1"}


def test_an_infinite_average_from_an_earlier_mode_is_not_believed() -> None:
    memory = Memory({"b1:1": BrokerMemory(ewma=-inf), "b2:1": BrokerMemory(ewma=nan)})
    (round_,) = play(SHEDDER, view(broker("b1", 50.0), broker("b2", 40.0)), memory=memory)
    assert ewmas(round_) == {"b1:1": 0.5, "b2:1": pytest.approx(0.4)}


@pytest.mark.parametrize(
    "name", ["pulsar/c/b1:8080/0x00000000_0xffffffff", "pulsar/system/0x00000000_0xffffffff"]
)
def test_system_bundles_stay(name: str) -> None:
    round_ = shed(*forty_ten_ten(broker("b1", 40.0, 100.0, {name: Load(20.0), **bundles(8, 7)})))
    assert picked(round_) == {"b1:1": [ns(0), ns(1)]}
    assert codes(round_)[name] == "system-bundle"


def test_a_heartbeat_does_not_make_a_second_bundle() -> None:
    round_ = shed(
        *forty_ten_ten(
            broker(
                "b1",
                40.0,
                100.0,
                {"pulsar/b1:1/0x00000000_0xffffffff": Load(1.0), ns(0): Load(90.0)},
            )
        )
    )
    assert picked(round_) == {}
    assert codes(round_)["b1:1"] == "sole-bundle"


def test_a_settling_broker_gives_nothing_and_counts_as_nobodys_destination() -> None:
    hot = broker("b1", 40.0, 100.0, bundles(20, 16))
    round_ = shed(replace(hot, settling=True), broker("b2", 10.0), broker("b3", 10.0))
    assert codes(round_)["b1:1"] == "settling"
    round_ = shed(hot, broker("b2", 10.0, settling=True), broker("b3", 10.0, settling=True))
    assert codes(round_)["b1:1"] == "nobody-to-take"
    assert picked(shed(hot, broker("b2", 10.0, settling=True), broker("b3", 10.0))) == {
        "b1:1": [ns(0)]
    }


def lower_boundary_case(idle: BrokerLoad) -> ClusterView:
    return view(
        *(broker(f"b{number}", 60.0, 400.0, unknown=2) for number in range(2, 6)),
        broker("b1", 61.0, 400.0, bundles(60, 50)),
        idle,
    )


def test_the_lower_boundary_waits_for_moves_under_way() -> None:
    assert picked(play(LOWER, lower_boundary_case(broker("b6", 0.0)))[0]) == {"b1:1": [ns(0)]}
    round_ = play(LOWER, lower_boundary_case(broker("b6", 0.0, settling=True)))[0]
    assert picked(round_) == {}
    assert codes(round_)["c"] == "waiting-for-moves"


def test_the_lower_boundary_needs_somebody_below_in_both_measures() -> None:
    memory = Memory({"b6:1": BrokerMemory(ewma=0.0)})
    round_ = play(LOWER, lower_boundary_case(broker("b6", 58.0)), memory=memory)[0]
    left = skip_of(round_, "c")
    assert (left.subject, left.names, left.code) == ("cluster", ("c",), "nobody-below")


def test_equal_bundles_leave_by_name_and_the_worst_broker_comes_first() -> None:
    seen = (
        broker("b1", 60.0, 100.0, bundles(5, 10, 10, 10)),
        broker("b2", 70.0, 100.0, bundles(12, 12, 12, first=8)),
        broker("b3", 10.0),
        broker("b4", 10.0),
    )
    wanted = {"b2:1": [ns(8), ns(9), ns(10)], "b1:1": [ns(1), ns(2)]}
    for brokers in (seen, seen[::-1]):
        round_ = shed(*brokers)
        assert picked(round_) == wanted
        assert list(picked(round_)) == ["b2:1", "b1:1"]


def test_a_bundle_that_two_brokers_report_leaves_once() -> None:
    seen = (
        broker("b1", 70.0, 100.0, bundles(12, 12, 12)),
        broker("b2", 70.0, 100.0, bundles(12, 12, 12)),
        *(broker(f"c{n}", 10.0) for n in range(4)),
    )
    round_ = shed(*seen)
    leaving = [decision.bundle for decision in round_.decisions]
    assert len(leaving) == len(set(leaving)) == 3
    assert codes(round_)["b2:1"] == "nothing-may-leave"


def test_without_load_there_is_nothing_to_compare() -> None:
    assert codes(shed(broker("b1", 0.0), broker("b2", 0.0))) == {"c": "no-load"}
    assert codes(shed()) == {"c": "no-load"}


def test_many_brokers_share_one_sentence() -> None:
    round_ = shed(*(broker(f"b{number}", 50.0 + number / 100) for number in range(100)))
    (skip,) = round_.skips
    assert len(skip.names) == 100
    assert "100 brokers average between 50.0 % and 51.0 %" in skip.text

"""OverloadShedder: Java's rule, then one story per repair."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from strategies.cluster.model import BrokerLoad, Resource
from strategies.shedding.contract import Shedding
from strategies.shedding.overload.fixed import OverloadShedder
from strategies.shedding.overload.parity import ParityOverloadShedder
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.overload.strategy import OVERLOAD
from tests.world.brokers import (
    MIB,
    WEIGHTS,
    Load,
    broker,
    bundles,
    codes,
    ns,
    picked,
    play,
    skip_of,
    view,
)

JAVA = ParityOverloadShedder(OverloadSettings(), WEIGHTS)
OURS = OverloadShedder(OverloadSettings(), WEIGHTS)


def java(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    return play(JAVA, view(*brokers, cooling=cooling))[0]


def ours(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    return play(OURS, view(*brokers, cooling=cooling))[0]


def test_the_heaviest_bundle_covers_twenty_mebibytes() -> None:
    round_ = java(broker("b1", 90.0, 200.0, bundles(60, 50, 40, 50)))
    assert picked(round_) == {"b1:1": [ns(0)]}
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(20 * MIB)


def test_exactly_the_threshold_is_overloaded() -> None:
    assert picked(java(broker("b1", 85.0, 200.0, bundles(6, 4)))) == {"b1:1": [ns(0), ns(1)]}


def test_a_hundredth_below_it_is_not() -> None:
    assert codes(java(broker("b1", 84.99, 200.0, bundles(6, 4)))) == {"b1:1": "not-overloaded"}


def test_a_sole_bundle_stays() -> None:
    assert codes(java(broker("b1", 99.0, 200.0, bundles(200)))) == {"b1:1": "sole-bundle"}


def test_one_bundle_leaves_though_nothing_flows() -> None:
    assert picked(java(broker("b1", 99.0, 0.0, bundles(0, 0)))) == {"b1:1": [ns(0)]}


def test_equal_bundles_leave_in_javas_hash_order() -> None:
    assert picked(java(broker("b1", 90.0, 200.0, bundles(60, 50, 40, 50)), cooling=(ns(0),))) == {
        "b1:1": [ns(3)]
    }


def test_the_next_one_leaves_too_while_something_is_missing() -> None:
    assert picked(java(broker("b1", 95.0, 100.0, bundles(10, 9, 6)))) == {"b1:1": [ns(0), ns(1)]}


def test_bundles_nobody_has_averages_of_cannot_leave() -> None:
    assert not java(broker("b1", 95.0, 100.0, unknown=2)).decisions


def test_a_heartbeat_counts_as_a_bundle_but_stays() -> None:
    owned = {"pulsar/b1:8080/0x00000000_0xffffffff": Load(50.0), **bundles(1)}
    assert picked(java(broker("b1", 95.0, 100.0, owned))) == {"b1:1": [ns(0)]}


def test_up_to_pulsar_3_weights_do_not_count() -> None:
    hot = broker("b1", 90.0, 200.0, bundles(60, 50))
    light = ParityOverloadShedder(OverloadSettings(), type(WEIGHTS)(cpu=0.5))
    old = ParityOverloadShedder(OverloadSettings(pulsar_version="3.3"), light.weights)
    assert not play(light, view(hot))[0].decisions
    assert picked(play(old, view(hot))[0]) == {"b1:1": [ns(0)]}
    shown = [OVERLOAD.usage(one.settings, one.weights, "parity") for one in (light, old)]
    assert [usage(hot.figures) for usage in shown] == [0.45, 0.8999999761581421]


def test_fixed_sheds_like_java_where_another_broker_has_room() -> None:
    hot, cool = broker("b1", 95.0, 100.0, bundles(10, 9, 6)), broker("b2", 20.0, 20.0)
    assert picked(ours(hot, cool)) == picked(java(hot, cool)) == {"b1:1": [ns(0), ns(1)]}
    assert ours(hot, cool).decisions[0].text == (
        "b1:1 is at 95.0 %, and 85 % counts as overloaded: "
        "10.0 MiB/s of the 15.0 MiB/s to shed leave with this bundle for a broker that "
        "placement picks"
    )


def test_nothing_is_shed_where_everybody_is_overloaded() -> None:
    hot = [broker(f"b{k}", 90.0 + k, 100.0, bundles(10, 9, first=4 * k)) for k in range(3)]
    assert len(picked(java(*hot))) == 3
    assert set(codes(ours(*hot)).values()) == {"nobody-to-take"}


def test_a_bundle_that_would_turn_the_imbalance_round_stays() -> None:
    round_ = ours(broker("b1", 90.0, 100.0, bundles(60, 8, 6)), broker("b2", 70.0, 70.0))
    assert picked(round_) == {"b1:1": [ns(1), ns(2)]}
    assert codes(round_)[ns(0)] == "too-big"


def test_idle_bundles_relieve_nobody() -> None:
    round_ = ours(broker("b1", 95.0, 100.0, bundles(0, 0)), broker("b2", 10.0))
    assert not round_.decisions
    assert skip_of(round_, ns(0)).code == "idle"
    assert (
        codes(ours(broker("b1", 95.0, 0.0, bundles(0, 0)), broker("b2", 10.0)))["b1:1"]
        == "too-little-traffic"
    )


def test_system_bundles_do_not_make_a_sole_bundle_movable() -> None:
    owned = {"pulsar/b1:8080/0x00000000_0xffffffff": Load(50.0), **bundles(1)}
    assert (
        codes(ours(broker("b1", 95.0, 100.0, owned), broker("b2", 10.0)))["b1:1"] == "sole-bundle"
    )


def test_a_settling_broker_neither_gives_nor_takes() -> None:
    hot, cool = broker("b1", 95.0, 100.0, bundles(10, 9), settling=True), broker("b2", 10.0)
    assert codes(ours(hot, cool)) == {"b1:1": "settling", "b2:1": "not-overloaded"}
    hot, cool = broker("b1", 95.0, 100.0, bundles(10, 9)), broker("b2", 10.0, settling=True)
    assert codes(ours(hot, cool)) == {"b1:1": "nobody-to-take", "b2:1": "settling"}


@pytest.mark.parametrize("cpu", [nan, inf])
def test_figures_that_are_not_finite_are_not_judged(cpu: float) -> None:
    lost = broker("b1", cpu, 100.0, bundles(10, 9))
    no = Resource(cpu, 100.0)
    blind = replace(lost.figures, cpu=no, direct_memory=no, bandwidth_in=no, bandwidth_out=no)
    round_ = ours(replace(lost, figures=blind), broker("b2", 10.0))
    assert codes(round_)["b1:1"] == "unusable-figures"


def test_the_fullest_broker_gives_first_and_a_bundle_leaves_once() -> None:
    owned = bundles(10, 9)
    round_ = ours(
        broker("b1", 90.0, 100.0, owned),
        broker("b2", 95.0, 100.0, {**owned, **bundles(5, first=4)}),
        broker("b3", 10.0),
    )
    assert list(picked(round_)) == ["b2:1"]
    moved = [decision.bundle for decision in round_.decisions]
    assert len(moved) == len(set(moved))

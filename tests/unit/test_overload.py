"""OverloadShedder: Java's rule, then one story per repair."""

import pytest

from strategies.cluster.model import BrokerLoad
from strategies.shedding.contract import Shedding
from strategies.shedding.overload.fixed import OverloadShedder
from strategies.shedding.overload.parity import ParityOverloadShedder
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import SHEDDERS
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, ns, view
from tests.world.sheddings import codes, picked, play, skip_of

JAVA = ParityOverloadShedder(OverloadSettings(), WEIGHTS)
OURS = OverloadShedder(OverloadSettings(), WEIGHTS)


def java(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    return play(JAVA, view(*brokers, cooling=cooling))[0]


def ours(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    return play(OURS, view(*brokers, cooling=cooling))[0]


def test_up_to_pulsar_3_weights_do_not_count() -> None:
    hot = broker("b1", 90.0, 200.0, bundles(60, 50))
    light = ParityOverloadShedder(OverloadSettings(), type(WEIGHTS)(cpu=0.5))
    old = ParityOverloadShedder(OverloadSettings(pulsar_version="3.3"), light.weights)
    assert not play(light, view(hot))[0].decisions
    assert picked(play(old, view(hot))[0]) == {"b1:1": [ns(0)]}
    usage_of = SHEDDERS["overload"].usage
    shown = [usage_of(one.settings, one.weights, "parity") for one in (light, old)]
    assert [usage(hot.figures) for usage in shown] == [0.45, 0.8999999761581421]


def test_fixed_sheds_like_java_where_another_broker_has_room() -> None:
    hot, cool = broker("b1", 95.0, 100.0, bundles(10, 9, 6)), broker("b2", 20.0, 20.0)
    assert picked(ours(hot, cool)) == picked(java(hot, cool)) == {"b1:1": [ns(0), ns(1)]}
    assert ours(hot, cool).decisions[0].evidence["to_shed"] == pytest.approx(15 * MIB)


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
    silent = ours(broker("b1", 95.0, 0.0, bundles(0, 0)), broker("b2", 10.0))
    assert codes(silent)["b1:1"] == "too-little-traffic"


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

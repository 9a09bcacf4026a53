"""UniformLoadShedder: Java's rule, then one story per repair."""

import pytest

from strategies.cluster.model import BrokerLoad
from strategies.shedding.contract import Shedding
from strategies.shedding.uniform.fixed import UniformLoadShedder
from strategies.shedding.uniform.parity import ParityUniformLoadShedder
from strategies.shedding.uniform.settings import UniformSettings
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, ns, talking, view
from tests.world.sheddings import codes, picked, play


def java(*brokers: BrokerLoad, settings: UniformSettings | None = None) -> Shedding:
    return play(ParityUniformLoadShedder(settings or UniformSettings(), WEIGHTS), view(*brokers))[0]


def ours(*brokers: BrokerLoad, settings: UniformSettings | None = None) -> Shedding:
    return play(UniformLoadShedder(settings or UniformSettings(), WEIGHTS), view(*brokers))[0]


def busy(rate: float, *rates: float, name: str = "b1") -> BrokerLoad:
    return broker(name, 10.0, rate=rate, owned=talking(*rates))


def idle(rate: float, name: str = "b2") -> BrokerLoad:
    return broker(name, 10.0, rate=rate)


@pytest.mark.parametrize(
    ("cap", "leaving", "code"), [(-1, [ns(1), ns(2)], None), (1, [ns(1)], "enough-for-one-round")]
)
def test_half_of_it_and_a_cap_that_leaves_a_reason_behind(
    cap: int, leaving: list[str], code: str | None
) -> None:
    settings = UniformSettings(max_unload=0.5, max_bundles=cap)
    round_ = ours(busy(30_000, 12_000, 3_500, 1_400), idle(10_000), settings=settings)
    assert picked(round_) == {"b1:1": leaving}
    assert codes(round_).get(ns(2)) == code
    assert {one.code for one in round_.decisions} == {"rate-uneven"}


def test_throughput_decides_where_rates_are_equal() -> None:
    round_ = ours(broker("b1", 10.0, 100.0, bundles(22, 16, 2)), broker("b2", 10.0, 10.0))
    assert picked(round_) == {"b1:1": [ns(1), ns(2)]}
    first = round_.decisions[0]
    assert (first.code, first.evidence["need"]) == ("throughput-uneven", 18 * MIB)


def test_java_unloads_the_idle_bundle_too() -> None:
    pair = busy(6_000, 1_000, 0), idle(0)
    assert picked(java(*pair)) == {"b1:1": [ns(0), ns(1)]}
    assert java(*pair).decisions[0].evidence["need"] == 1199
    assert picked(ours(*pair)) == {"b1:1": [ns(0)]}
    assert codes(ours(*pair))[ns(1)] == "idle"


def test_too_little_is_not_worth_it() -> None:
    pair = busy(4_000, 500, 0), idle(0)
    assert codes(java(*pair))["b1:1"] == codes(ours(*pair))["b1:1"] == "too-little-traffic"


def test_javas_minimum_never_exceeds_31_bits() -> None:
    pair = broker("b1", 10.0, 6e9 / MIB, bundles(50, 40)), broker("b2", 10.0, 1e9 / MIB)
    high = broker("b1", 10.0, 6e9 / MIB, bundles(50, 40)), broker("b2", 10.0, 4e9 / MIB)
    tight = UniformSettings(throughput_ratio=2.0)
    assert not java(*high).decisions
    assert picked(java(*high, settings=tight)) == {"b1:1": [ns(0), ns(1)]}
    assert codes(ours(*high, settings=tight)) == {"c": "even"}
    assert picked(ours(*pair)) == picked(java(*pair)) == {"b1:1": [ns(0), ns(1)]}


def test_a_bundle_costs_java_whole_messages_only() -> None:
    pair = busy(9_000, 1_000.9, 599.9, 0.5), idle(1_000)
    assert picked(java(*pair)) == {"b1:1": [ns(0), ns(1), ns(2)]}
    assert picked(ours(*pair)) == {"b1:1": [ns(0), ns(2)]}


def test_of_two_busiest_brokers_the_first_of_the_walk_gives() -> None:
    seen = (
        broker("b1", 10.0, rate=9_000, owned=talking(500, 500)),
        broker("b2", 10.0, rate=9_000, owned=talking(500, 500, first=2)),
        idle(1_000, "b3"),
    )
    assert picked(java(*seen)) == {"b2:1": [ns(3), ns(2)]}
    assert picked(ours(*seen)) == {"b1:1": [ns(0), ns(1)]}


def test_where_the_rate_moves_nothing_java_does_not_look_at_the_throughput() -> None:
    seen = (
        broker("b1", 10.0, 100.0, bundles(12, 8), rate=100),
        broker("b2", 10.0, 1.0, talking(50_000, first=4), rate=50_000),
        broker("b3", 10.0, 1.0, rate=10),
    )
    assert not java(*seen).decisions
    assert codes(java(*seen))["b2:1"] == "sole-bundle"
    assert picked(ours(*seen)) == {"b1:1": [ns(0)]}
    assert codes(ours(*seen))["b2:1"] == "sole-bundle"


def test_up_to_4_0_a_bundle_may_be_a_thousand_messages_too_large() -> None:
    pair = busy(30_000, 12_000, 4_900, 1_400), idle(10_000)
    assert picked(java(*pair, settings=UniformSettings(pulsar_version="4.0"))) == {"b1:1": [ns(1)]}
    assert picked(java(*pair, settings=UniformSettings(pulsar_version="4.1"))) == {"b1:1": [ns(2)]}

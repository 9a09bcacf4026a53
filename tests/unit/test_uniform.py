"""UniformLoadShedder: Java's rule, then one story per repair."""

from __future__ import annotations

from math import nan

import pytest

from strategies.cluster.model import BrokerLoad
from strategies.shedding.contract import Shedding
from strategies.shedding.uniform.fixed import UniformLoadShedder
from strategies.shedding.uniform.parity import ParityUniformLoadShedder
from strategies.shedding.uniform.settings import UniformSettings
from tests.world.brokers import (
    MIB,
    WEIGHTS,
    broker,
    bundles,
    codes,
    ns,
    picked,
    play,
    skip_of,
    talking,
    view,
)


def java(*brokers: BrokerLoad, settings: UniformSettings | None = None) -> Shedding:
    return play(ParityUniformLoadShedder(settings or UniformSettings(), WEIGHTS), view(*brokers))[0]


def ours(*brokers: BrokerLoad, settings: UniformSettings | None = None) -> Shedding:
    return play(UniformLoadShedder(settings or UniformSettings(), WEIGHTS), view(*brokers))[0]


def busy(rate: float, *rates: float, name: str = "b1") -> BrokerLoad:
    return broker(name, 10.0, rate=rate, owned=talking(*rates))


def idle(rate: float, name: str = "b2") -> BrokerLoad:
    return broker(name, 10.0, rate=rate)


TALKATIVE_AND_IDLE = (busy(30_000, 12_000, 3_500, 1_400), idle(10_000))


def test_a_fifth_of_the_difference_leaves() -> None:
    round_ = java(*TALKATIVE_AND_IDLE)
    assert picked(round_) == {"b1:1": [ns(1)]}
    assert round_.decisions[0].evidence["need"] == 4000
    assert codes(round_) == {
        "b2:1": "not-the-busiest",
        ns(0): "does-not-fit",
        ns(2): "does-not-fit",
    }


@pytest.mark.parametrize(("cap", "leaving"), [(-1, [ns(1), ns(2)]), (1, [ns(1)])])
def test_half_of_it_and_a_cap(cap: int, leaving: list[str]) -> None:
    settings = UniformSettings(max_unload=0.5, max_bundles=cap)
    assert (
        picked(java(*TALKATIVE_AND_IDLE, settings=settings))
        == picked(ours(*TALKATIVE_AND_IDLE, settings=settings))
        == {"b1:1": leaving}
    )


def test_throughput_decides_where_rates_are_equal() -> None:
    pair = broker("b1", 10.0, 100.0, bundles(22, 16, 2)), broker("b2", 10.0, 10.0)
    assert picked(java(*pair)) == picked(ours(*pair)) == {"b1:1": [ns(1), ns(2)]}
    assert java(*pair).decisions[0].evidence["need"] == 18 * MIB
    assert ours(*pair).decisions[0].text == (
        "b1:1 carries 100.0 MiB/s, the idlest broker 10.0 MiB/s: "
        "16.0 MiB/s of the 18.0 MiB/s to move leave with this bundle for a broker that "
        "placement picks"
    )


def test_java_unloads_the_idle_bundle_too() -> None:
    pair = busy(6_000, 1_000, 0), idle(0)
    assert picked(java(*pair)) == {"b1:1": [ns(0), ns(1)]}
    assert java(*pair).decisions[0].evidence["need"] == 1199
    assert picked(ours(*pair)) == {"b1:1": [ns(0)]}
    assert codes(ours(*pair))[ns(1)] == "idle"


def test_too_little_is_not_worth_it() -> None:
    pair = busy(4_000, 500, 0), idle(0)
    assert codes(java(*pair))["b1:1"] == codes(ours(*pair))["b1:1"] == "too-little-traffic"


def test_a_sole_bundle_stays() -> None:
    assert codes(java(busy(30_000, 3_000), idle(10_000)))["b1:1"] == "sole-bundle"


def test_exactly_the_threshold_is_even() -> None:
    assert codes(java(busy(15_000, 500, 400), idle(10_000))) == {"c": "even"}


def test_javas_minimum_never_exceeds_31_bits() -> None:
    pair = broker("b1", 10.0, 6e9 / MIB, bundles(50, 40)), broker("b2", 10.0, 1e9 / MIB)
    high = broker("b1", 10.0, 6e9 / MIB, bundles(50, 40)), broker("b2", 10.0, 4e9 / MIB)
    tight = UniformSettings(throughput_ratio=2.0)
    assert not java(*high).decisions
    assert picked(java(*high, settings=tight)) == {"b1:1": [ns(0), ns(1)]}
    assert codes(ours(*high, settings=tight)) == {"c": "even"}
    assert picked(ours(*pair)) == picked(java(*pair)) == {"b1:1": [ns(0), ns(1)]}


def test_no_brokers() -> None:
    assert codes(java()) == codes(ours()) == {"c": "even"}


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


def test_three_idle_bundles_leave_and_the_hot_one_stays() -> None:
    pair = busy(30_000, 30_000, 0, 0, 0), idle(1_000)
    assert set(picked(java(*pair))["b1:1"]) == {ns(1), ns(2), ns(3)}
    assert codes(ours(*pair))["b1:1"] == "nothing-fits"


def test_where_the_rate_moves_nothing_java_does_not_look_at_the_throughput() -> None:
    seen = (
        broker("b1", 10.0, 100.0, bundles(12, 8), rate=100),
        broker("b2", 10.0, 1.0, talking(50_000, first=4), rate=50_000),
        broker("b3", 10.0, 1.0, rate=10),
    )
    assert codes(java(*seen))["b2:1"] == "sole-bundle"
    assert not java(*seen).decisions
    assert picked(ours(*seen)) == {"b1:1": [ns(0)]}
    assert codes(ours(*seen))["b2:1"] == "sole-bundle"


def test_up_to_4_0_a_bundle_may_be_a_thousand_messages_too_large() -> None:
    pair = busy(30_000, 12_000, 4_900, 1_400), idle(10_000)
    assert picked(java(*pair)) == {"b1:1": [ns(2)]}
    assert picked(java(*pair, settings=UniformSettings(pulsar_version="4.0"))) == {"b1:1": [ns(1)]}
    assert picked(java(*pair, settings=UniformSettings(pulsar_version="4.1"))) == {"b1:1": [ns(2)]}


def test_settling_brokers_and_figures_that_are_no_numbers_are_not_compared() -> None:
    round_ = ours(
        *TALKATIVE_AND_IDLE,
        broker("b3", 10.0, rate=nan),
        broker("b4", 10.0, rate=9e9, settling=True),
    )
    assert picked(round_) == {"b1:1": [ns(1)]}
    assert skip_of(round_, "b3:1").code == "unusable-figures"
    assert skip_of(round_, "b4:1").code == "settling"
    assert codes(ours(broker("b1", 10.0, rate=nan))) == {"b1:1": "unusable-figures", "c": "even"}


def test_the_cap_leaves_a_reason_behind() -> None:
    round_ = ours(*TALKATIVE_AND_IDLE, settings=UniformSettings(max_unload=0.5, max_bundles=1))
    assert codes(round_)[ns(2)] == "enough-for-one-round"

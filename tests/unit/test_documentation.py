"""Where Pulsar's documentation and code differ: rows of tests/conformance/README.md."""

from dataclasses import replace
from typing import get_args

import pytest

from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import BrokerRates, DispatchRate
from pulsar_rebalancer.settings.broker_conf.keys import KEYS
from strategies.cluster.model import Figures, Resource
from strategies.figures.usage import weighted_usage
from strategies.java.pulsar_versions_and_defaults import PulsarVersion
from strategies.placement.registry import placer
from strategies.settings import Weights
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.transfer.settings import TransferSettings
from tests.world.brokers import WEIGHTS, broker, bundles, shedder, talking, view
from tests.world.placement import best, brokers
from tests.world.sheddings import codes, play


def test_the_overload_threshold_is_not_overload_shedders_alone() -> None:
    assert best(placer("least_long_term_rate", None, "parity"), *brokers(b1=86, b2=85)) == ["b2"]
    fifty = [broker(f"b{number}", 50.0, 50.0) for number in range(2, 8)]
    rule = shedder("transfer", TransferSettings(hit_count=0, target_std=0.3), WEIGHTS, "parity")
    hot, calm = (
        play(rule, view(broker("b1", usage, 50.0, bundles(5, 5, 40)), *fifty))[0]
        for usage in (86.0, 79.0)
    )
    assert {decision.code for decision in hot.decisions} == {"overloaded"}
    assert codes(calm) == {"c": "even"}


def test_no_release_that_counts_heap_is_imitated() -> None:
    assert min(get_args(PulsarVersion)) == "3.0"


def test_threshold_aims_at_average_plus_threshold_minus_five_points() -> None:
    seen = view(broker("b1", 40.0, 100.0, bundles(20, 20)), broker("b2", 0.0))
    (round_,) = play(shedder("threshold", None, WEIGHTS, "parity"), seen)
    evidence = round_.decisions[0].evidence
    mean, to_shed = float(str(evidence["mean"])), float(str(evidence["to_shed"]))
    assert 0.4 - to_shed / (100 * 1048576) == pytest.approx(mean + 0.10 - 0.05)


def test_avg_moves_nothing_of_the_documented_example() -> None:
    seen = view(
        broker("b1", 10.0, rate=500), broker("b2", 90.0, rate=1000, owned=talking(250, 200))
    )
    rounds = play(shedder("avg", AvgSettings(max_unload=0.5), WEIGHTS, "parity"), seen, seen)
    assert not any(round_.decisions for round_ in rounds)
    assert codes(rounds[1])["b2:1"] == "too-little-traffic"


def test_weights_above_one_count() -> None:
    figures = Figures(cpu=Resource(40.0, 100.0), direct_memory=Resource(30.0, 100.0))
    assert weighted_usage(figures, Weights()) == pytest.approx(0.4)
    assert weighted_usage(figures, Weights(direct_memory=2.0)) == pytest.approx(0.6)


@pytest.mark.parametrize("part", [0, -1])
def test_a_dispatch_limit_of_0_or_less_is_none(part: int) -> None:
    assert BrokerRates() == replace(BrokerRates(), messages=0, bytes=0)
    assert not DispatchRate(part, part).is_set
    assert not BrokerRates(messages=part, bytes=part).of("broker").is_set


def test_the_rate_period_is_no_key_of_a_broker() -> None:
    assert "not a key of broker.conf" in KEYS["ratePeriodInSecond"].why


def test_the_relative_rate_of_a_broker_sets_nothing() -> None:
    assert KEYS["dispatchThrottlingRateRelativeToPublishRate"].why.startswith("unused")

"""What all strategies that look at one broker after the other say of bundles that stay."""

from dataclasses import replace
from math import inf, nan

import pytest

from strategies.cluster.model import BrokerLoad, Decision, Resource, Skip
from strategies.shedding.contract import Shedding
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.reason_texts import revised
from tests.properties.legal import EAGER
from tests.world.brokers import WEIGHTS, Load, broker, bundles, ns, shedder, view
from tests.world.sheddings import codes, picked, play, skip_of

SETTINGS = {**EAGER, "overload": OverloadSettings()}
EACH = Load(25.0, 3000.0)
FOUR = {ns(k): EACH for k in range(4)}
each_strategy = pytest.mark.parametrize(
    "strategy", ["threshold", "avg", "overload", "uniform", "transfer"]
)


def hot(owned: dict[str, Load] = FOUR, **more: bool) -> BrokerLoad:
    return broker("b1", 90.0, 400.0, owned, rate=40_000, **more)


COLD = broker("b2", 10.0, 20.0, bundles(5, 5, first=8), rate=1000)
CALM = broker("b3", 30.0, 40.0, bundles(5, 5, first=12), rate=2000)


def shed(strategy: str, *brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    rule = shedder(strategy, SETTINGS[strategy], WEIGHTS, "fixed")
    (round_,) = play(rule, view(*brokers, cooling=cooling))
    return round_


def stays(round_: Shedding, bundle: str) -> str:
    """The code of the reason why a bundle stays."""
    assert bundle not in {decision.bundle for decision in round_.decisions}
    return skip_of(round_, bundle).code


def blinded(load: BrokerLoad, figure: float) -> BrokerLoad:
    """The broker with a figure that is no number for each resource and for its message rate."""
    no, traffic = Resource(figure, 100.0), replace(load.figures.traffic, msg_rate_in=figure)
    blind = replace(load.figures, cpu=no, direct_memory=no, bandwidth_in=no, bandwidth_out=no)
    return replace(load, figures=replace(blind, traffic=traffic))


@each_strategy
@pytest.mark.parametrize(
    "name", ["pulsar/b1:8080", "pulsar/c/b1:8080", "sla-monitor/c/b1:8080", "pulsar/system"]
)
def test_a_system_bundle_stays_and_is_no_second_bundle(strategy: str, name: str) -> None:
    bundle = f"{name}/0x00000000_0xffffffff"
    assert stays(shed(strategy, hot({bundle: EACH, **FOUR}), COLD, CALM), bundle) == "system-bundle"
    alone = shed(strategy, hot({bundle: EACH, ns(0): EACH}), COLD, CALM)
    assert "b1:1" not in picked(alone)
    assert codes(alone)["b1:1"] == ("not-at-the-ends" if strategy == "transfer" else "sole-bundle")


@each_strategy
def test_a_settling_broker_gives_and_takes_nothing(strategy: str) -> None:
    full = shed(strategy, hot(settling=True), COLD, CALM)
    assert ("b1:1" in picked(full), codes(full)["b1:1"]) == (False, "settling")
    empty = shed(strategy, hot(), replace(COLD, settling=True), CALM)
    assert codes(empty)["b2:1"] == "settling"
    assert "b2:1" not in {decision.destination for decision in empty.decisions}


@each_strategy
def test_a_bundle_that_moved_a_short_while_ago_rests(strategy: str) -> None:
    round_ = shed(strategy, hot(), COLD, CALM, cooling=(ns(0),))
    assert stays(round_, ns(0)) == "cooling-down"
    assert ns(1) in picked(round_)["b1:1"]


@each_strategy
@pytest.mark.parametrize("figure", [nan, inf])
def test_a_broker_whose_figures_are_no_numbers_is_left_out(strategy: str, figure: float) -> None:
    round_ = shed(strategy, hot(), blinded(COLD, figure), CALM)
    assert codes(round_)["b2:1"] == "unusable-figures"
    assert {*picked(round_)} == {"b1:1"}


@each_strategy
def test_an_idle_bundle_relieves_nobody(strategy: str) -> None:
    code = {"avg": "does-not-fit", "transfer": "not-among-the-heaviest"}.get(strategy, "idle")
    assert stays(shed(strategy, hot({ns(4): Load(), **FOUR}), COLD, CALM), ns(4)) == code


DECISION = Decision("t/ns/0x00000000_0x80000000", "hot:1", None, "overloaded", "it is overloaded")


def test_brokers_that_take_part_now_or_have_a_newer_reason_leave_their_old_skip() -> None:
    both = Skip("broker", ("hot:1", "calm:1"), "below-threshold", "below the threshold")
    newer = Skip("broker", ("full:1",), "no-bundles", "it has no bundles")
    outdated = Skip("broker", ("full:1",), "below-threshold", "below the threshold")
    cluster = Skip("cluster", ("c",), "balanced", "it is balanced")

    left = revised([both, outdated, cluster], [DECISION], [newer])

    assert left == [replace(both, names=("calm:1",)), cluster, newer]

"""ThresholdShedder: one story per repair; the vectors have the rule itself."""

from math import inf, nan

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.cluster.strategy_memory import BrokerMemory, Memory
from strategies.shedding.contract import Shedder, Shedding
from strategies.shedding.threshold.fixed import ThresholdShedder
from strategies.shedding.threshold.parity import ParityThresholdShedder
from strategies.shedding.threshold.settings import ThresholdSettings
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, ns, view
from tests.world.sheddings import codes, ewmas, picked, play, skip_of

JAVA = ParityThresholdShedder(ThresholdSettings(10.0, 0.9, 10.0), WEIGHTS)


def test_only_a_tie_that_matters_asks_for_the_names_of_all_bundles() -> None:
    def no_names() -> list[str]:
        raise AssertionError("asked")

    hot = broker("b1", 40.0, 100.0, bundles(20, 12, 12))
    idle = (broker(name, 10.0, 25.0) for name in ("b2", "b3"))
    seen = ClusterView("c", 0, (hot, *idle), frozenset(), no_names)
    assert picked(play(JAVA, seen)[0]) == {"b1:1": [ns(0)]}


SHEDDER = ThresholdShedder(ThresholdSettings(), WEIGHTS)
LOWER = ThresholdShedder(ThresholdSettings(lower_boundary=True), WEIGHTS)


def shed(*brokers: BrokerLoad, cooling: tuple[str, ...] = ()) -> Shedding:
    return play(SHEDDER, view(*brokers, cooling=cooling))[0]


@pytest.mark.parametrize("rule", [JAVA, SHEDDER])
@pytest.mark.parametrize(
    ("high", "low", "sheds"),
    [(40.0, 10.0, True), (30.0, 10.0, True), (29.0, 10.0, False), (35.0, 15.0, False)],
)
def test_exactly_on_the_threshold_float_noise_decides(
    rule: Shedder, high: float, low: float, sheds: bool
) -> None:
    seen = view(broker("b1", high, 200.0, bundles(30, 10)), broker("b2", low, 20.0))
    assert picked(rule.shed(seen, Memory())) == ({"b1:1": [ns(0)]} if sheds else {})


def test_the_smaller_of_average_and_newest_usage_decides_how_much_leaves() -> None:
    memory = Memory({"b1:1": BrokerMemory(ewma=0.9), "b2:1": BrokerMemory(ewma=0.1)})
    seen = view(broker("b1", 65.0, 100.0, bundles(10, 8, 6, 4)), broker("b2", 35.0))
    (round_,) = play(SHEDDER, seen, memory=memory)
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(10 * MIB)


def test_a_bundle_that_would_turn_the_imbalance_round_gives_way_to_one_that_does_not() -> None:
    round_ = shed(broker("b1", 80.0, 100.0, bundles(60, 26, 14)), broker("b2", 20.0))
    assert picked(round_) == {"b1:1": [ns(1)]}
    assert codes(round_)[ns(0)] == "too-big"


def test_where_every_bundle_is_too_big_the_lightest_that_lowers_the_peak_leaves() -> None:
    round_ = shed(broker("b1", 80.0, 100.0, bundles(60, 40)), broker("b2", 20.0))
    assert picked(round_) == {"b1:1": [ns(1)]}
    round_ = shed(broker("b1", 80.0, 100.0, bundles(98, 97)), broker("b2", 20.0))
    assert picked(round_) == {}
    assert codes(round_)[ns(0)] == "too-big"


def test_the_first_figures_count_even_when_they_are_old() -> None:
    round_ = shed(broker("b1", 80.0, fresh=False), broker("b2", 75.0))
    assert ewmas(round_)["b1:1"] == pytest.approx(0.8)


def test_an_infinite_average_from_an_earlier_mode_is_not_believed() -> None:
    memory = Memory({"b1:1": BrokerMemory(ewma=-inf), "b2:1": BrokerMemory(ewma=nan)})
    (round_,) = play(SHEDDER, view(broker("b1", 50.0), broker("b2", 40.0)), memory=memory)
    assert ewmas(round_) == {"b1:1": 0.5, "b2:1": pytest.approx(0.4)}


def test_a_settling_broker_counts_as_nobodys_destination() -> None:
    hot = broker("b1", 40.0, 100.0, bundles(20, 16))
    round_ = shed(hot, broker("b2", 10.0, settling=True), broker("b3", 10.0, settling=True))
    assert codes(round_)["b1:1"] == "nobody-to-take"
    round_ = shed(hot, broker("b2", 10.0, settling=True), broker("b3", 10.0))
    assert picked(round_) == {"b1:1": [ns(0)]}


def lower_boundary_case(idle: BrokerLoad) -> ClusterView:
    busy = (broker(f"b{number}", 60.0, 400.0, unknown=2) for number in range(2, 6))
    return view(*busy, broker("b1", 61.0, 400.0, bundles(60, 50)), idle)


def test_the_lower_boundary_waits_for_moves_under_way() -> None:
    assert picked(play(LOWER, lower_boundary_case(broker("b6", 0.0)))[0]) == {"b1:1": [ns(0)]}
    round_ = play(LOWER, lower_boundary_case(broker("b6", 0.0, settling=True)))[0]
    assert (picked(round_), codes(round_)["c"]) == ({}, "waiting-for-moves")


def test_the_lower_boundary_needs_somebody_below_in_both_measures() -> None:
    memory = Memory({"b6:1": BrokerMemory(ewma=0.0)})
    round_ = play(LOWER, lower_boundary_case(broker("b6", 58.0)), memory=memory)[0]
    left = skip_of(round_, "c")
    assert (left.subject, left.names, left.code) == ("cluster", ("c",), "nobody-below")


def test_equal_bundles_leave_by_name_and_the_worst_broker_comes_first() -> None:
    b1 = broker("b1", 60.0, 100.0, bundles(5, 10, 10, 10))
    b2 = broker("b2", 70.0, 100.0, bundles(12, 12, 12, first=8))
    seen = (b1, b2, broker("b3", 10.0), broker("b4", 10.0))
    wanted = {"b2:1": [ns(8), ns(9), ns(10)], "b1:1": [ns(1), ns(2)]}
    for brokers in (seen, seen[::-1]):
        assert list(picked(shed(*brokers)).items()) == list(wanted.items())


def test_without_load_there_is_nothing_to_compare() -> None:
    assert codes(shed(broker("b1", 0.0), broker("b2", 0.0))) == {"c": "no-load"}
    assert codes(shed()) == {"c": "no-load"}


@pytest.mark.parametrize(("sizes", "left"), [((180, 120), {"b7:1": [ns(0)]}), ((300,), {})])
def test_the_lower_boundary_takes_from_a_broker_of_two_bundles_and_leaves_a_sole_one(
    sizes: tuple[int, ...], left: object
) -> None:
    loaded = [
        broker(f"b{number}", 80.0, 400.0, unknown=1) for number in range(1, 11) if number != 7
    ]
    seen = view(*loaded, broker("b7", 81.0, 400.0, bundles(*sizes)), broker("b11", 0.0))
    assert picked(play(LOWER, seen)[0]) == left


def test_a_quiet_round_moves_the_average_once() -> None:
    rounds = play(LOWER, *(view(broker("b1", cpu), broker("b2", 75.0)) for cpu in (80.0, 50.0)))
    assert ewmas(rounds[1])["b1:1"] == pytest.approx(0.77)

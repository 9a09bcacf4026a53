"""When each strategy calls a cluster balanced: just inside its own setting, and just outside."""

from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import EngineDecider, closed_loop
from pulsar_rebalancer.lab.strategy_goal import Goal, goal_of
from strategies.cluster.model import Round, Skip
from strategies.figures.usage_after_moves import spread
from strategies.fold.engine import EngineSettings
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.transfer.settings import TransferSettings

RECORD = next(iter(closed_loop(skewed_cluster(), EngineDecider(EngineSettings())))).round


def seen(*percents: float, skips: tuple[Skip, ...] = ()) -> Round:
    usage = {f"b{number}:1": percent / 100 for number, percent in enumerate(percents, start=1)}
    return replace(
        RECORD, brokers=tuple(usage), usage=usage, spread=spread(list(usage.values())), skips=skips
    )


def goal(strategy: str) -> Goal:
    return goal_of(EngineSettings(strategy))


@pytest.mark.parametrize(
    ("strategy", "inside", "outside", "figure"),
    [
        ("avg", (50, 35.5), (50, 35), 15),
        ("threshold", (60, 50, 41), (60, 50, 40), 10),
        ("overload", (84.9, 10), (85, 10), 85),
        ("transfer", (75, 25), (75.2, 25), 25.1),
    ],
)
def test_a_goal_is_measured_the_way_its_strategy_measures(
    strategy: str, inside: tuple[float, ...], outside: tuple[float, ...], figure: float
) -> None:
    assert goal(strategy).reached(seen(*inside))
    assert not goal(strategy).reached(seen(*outside))
    assert goal(strategy).spread(seen(*outside)) == pytest.approx(figure)


@pytest.mark.parametrize("strategy", ["uniform", "steady"])
def test_some_strategies_are_asked_for_their_own_verdict(strategy: str) -> None:
    even = Skip("cluster", ("c",), "even", "within the limits")
    assert goal(strategy).reached(seen(90, 10, skips=(even,)))
    assert not goal(strategy).reached(seen(50, 50))


def test_uniform_compares_traffic_and_steady_usage() -> None:
    busy = replace(seen(50, 50), throughput_spread=spread([30.0, 10.0]))
    assert goal("uniform").spread(busy) == pytest.approx(50)
    assert goal("uniform").verdict(busy) == "which UniformLoadShedder does not consider even"
    assert goal("steady").spread(seen(90, 10)) == pytest.approx(80)
    for strategy, figure in (("steady", "usage"), ("uniform", "traffic")):
        expected = f"no two brokers with {figure} that the strategy considers uneven"
        assert goal(strategy).text == expected


@pytest.mark.parametrize("code", ["waiting-for-samples", "moves-did-not-help", "rule-raised"])
@pytest.mark.parametrize("strategy", ["steady", "avg"])
def test_a_round_that_judges_nothing_calls_no_cluster_even_or_uneven(
    strategy: str, code: str
) -> None:
    waits = Skip("cluster", ("c",), code, "too few samples")

    told = f"which {goal(strategy).strategy.java_class} cannot judge yet: too few samples [{code}]"

    assert goal(strategy).verdict(seen(50, 50, skips=(waits,))) == told
    assert goal(strategy).verdict(seen(90, skips=(waits,))) == told
    assert not goal(strategy).reached(seen(50, 50, skips=(waits,)))
    assert not goal(strategy).reached(seen(skips=(waits,)))
    assert goal(strategy).reached(seen(50, skips=(waits,))), "a broker alone needs no judgement"


def test_the_words_of_a_goal() -> None:
    spread_of = "(max − min of the brokers' usage) below the strategy's threshold of 15 points"
    assert goal("avg").text == f"spread {spread_of}"
    assert goal("avg").verdict(seen(50, 40)) == "below AvgShedder's threshold of 15"
    above = "which is not below OverloadShedder's threshold of 85"
    assert goal("overload").verdict(seen(90, 40)) == above
    tight = goal_of(EngineSettings("transfer", shedding=TransferSettings(target_std=0.05)))
    deviation = (
        "(standard deviation of the brokers' usage) within the strategy's target of 5 points"
    )
    assert tight.text == f"spread {deviation}"


@pytest.mark.parametrize("strategy", list(SHEDDERS))
def test_a_cluster_of_nobody_is_even(strategy: str) -> None:
    empty = replace(seen(), throughput_spread=spread([]))
    assert goal(strategy).reached(empty)
    assert goal(strategy).spread(empty) == 0

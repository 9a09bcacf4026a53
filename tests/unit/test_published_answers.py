"""Unit vectors of published experiments and proposals with their printed answers; those of
Threshold and Avg alone stand beside them.
"""

from __future__ import annotations

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.placement.registry import placer
from strategies.shedding.contract import Shedding
from strategies.shedding.registry import shedder
from strategies.shedding.uniform.settings import UniformSettings
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, ns, picked, play, talking, view
from tests.world.placement import bundle_of, candidate, placed


def java(strategy: str, *brokers: BrokerLoad) -> Shedding:
    return play(shedder(strategy, None, WEIGHTS, "parity"), view(*brokers))[0]


@pytest.mark.parametrize(
    ("number", "usages", "mean"),
    [(3, (69.685, 65.643, 54.476), 0.63268), (4, (8.251, 11.142, 4.6, 23.925, 6.013), 0.10786)],
)
def test_published_3_and_4_nobody_is_ten_points_below_the_mean_so_all_are_drawn_from(
    number: int, usages: tuple[float, ...], mean: float
) -> None:
    brokers = [candidate(f"b{index}", usage) for index, usage in enumerate(usages)]
    answer = placed(placer("least_resource_usage", None, "parity"), *brokers)
    assert (answer.code, len(answer.best)) == ("nobody-below-mean", len(usages)), number
    assert answer.evidence["mean"] == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize("usages", [(12, 2, 1, 1), (50, 50, 50, 50, 50, 0)])
def test_published_9_threshold_sees_neither_blind_spot_of_pip_220_and_transfer_both(
    usages: tuple[float, ...],
) -> None:
    brokers = [
        broker(f"b{index}", usage, 10 * usage, bundles(3, 3, 4, first=3 * index))
        for index, usage in enumerate(usages)
    ]
    assert not java("threshold", *brokers).decisions
    fourth = play(shedder("transfer", None, WEIGHTS, "parity"), *[view(*brokers)] * 4)[3]
    assert set(picked(fourth)) == {"b0:1"} if usages[0] == 12 else len(picked(fourth)) == 1


def test_published_10_a_broker_that_is_busy_with_something_else_stalls_the_others() -> None:
    """10, 50 and 70 %, the last with load that is not Pulsar's: the mean is 43.33, so the one that
    could give is not above it enough.
    """
    round_ = java(
        "threshold",
        broker("b1", 10.0, 100.0),
        broker("b2", 50.0, 500.0, bundles(30, 30)),
        broker("b3", 70.0),
    )
    assert not round_.decisions
    (near,) = [skip for skip in round_.skips if "b2:1" in skip.names]
    assert near.code == "below-threshold"
    assert near.evidence["mean"] == pytest.approx(0.4333, abs=1e-4)


def test_published_11_ten_gigabytes_at_90_percent_shed_one() -> None:
    round_ = java("overload", broker("b1", 90.0, 10_240.0, bundles(600, 500)))
    assert round_.decisions[0].evidence["to_shed"] == pytest.approx(0.1 * 10_240 * MIB)
    assert picked(round_) == {"b1:1": [ns(0), ns(1)]}


def test_published_12_what_is_on_its_way_counts_so_each_broker_takes_one() -> None:
    rule = placer("least_long_term_rate", None, "parity")
    assert placed(rule, candidate("b1", 10, 100), candidate("b2", 10, 110)).chosen == "b1"
    on_its_way = candidate("b1", 10, 100, arriving={ns(0): bundle_of(20)})
    assert placed(rule, on_its_way, candidate("b2", 10, 110)).chosen == "b2"


def test_published_13_uniform_acts_on_66_percent_and_on_four_and_a_half_times() -> None:
    by_rate = java(
        "uniform",
        broker("b1", 10.0, rate=50_000, owned=talking(3500, 100)),
        broker("b2", 10.0, rate=30_000),
    )
    assert {decision.code for decision in by_rate.decisions} == {"rate-uneven"}
    by_throughput = java(
        "uniform", broker("b1", 10.0, 450.0, bundles(60, 9)), broker("b2", 10.0, 100.0)
    )
    assert {decision.code for decision in by_throughput.decisions} == {"throughput-uneven"}
    assert by_throughput.decisions[0].evidence["need"] == 70 * MIB


@pytest.mark.heavy
def test_published_13_a_hundred_new_brokers_take_uniform_a_hundred_rounds() -> None:
    rule = shedder("uniform", UniformSettings(max_unload=0.5), WEIGHTS, "parity")
    owned = {
        f"b{index}": [f"t/n{index}/{k}" for k in range(30 if index < 100 else 0)]
        for index in range(200)
    }
    rounds = 0
    while round_ := play(rule, _serving(owned))[0].decisions:
        rounds += 1
        assert len({decision.source for decision in round_}) == 1
        for decision in round_:
            owned[decision.source[:-2]].remove(decision.bundle)
            owned[str(decision.evidence["idlest"])[:-2]].append(decision.bundle)
    assert rounds == 100


def _serving(owned: dict[str, list[str]]) -> ClusterView:
    """Every bundle carries 1,000 messages/s."""
    one = talking(1000)[ns(0)]
    return view(
        *(
            broker(name, 10.0, rate=1000.0 * len(names), owned=dict.fromkeys(names, one))
            for name, names in owned.items()
        )
    )

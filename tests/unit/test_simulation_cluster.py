"""A modelled cluster behaves like one: traffic costs CPU, bundles take their traffic along, the seed decides everything."""

from __future__ import annotations

import numpy as np
import pytest

from rebalancer.simulation.cluster import SimulatedCluster
from rebalancer.simulation.model import BrokerModel, BundleModel, ClusterModel, Hardware, Noise
from rebalancer.simulation.placement import least_long_term_rate
from rebalancer.simulation.skewed import SKEW, skewed_cluster
from rebalancer.simulation.telemetry import collection_pass, to_json
from strategies.usage import percent

#: 1 % of a core per message/s, bytes are free.
PLAIN = Hardware(cpu_limit=100.0, cpu_idle=0.0, cpu_per_message=0.01, cpu_per_byte=0.0)


def small_cluster(noise: Noise = Noise(0.0, 0.0)) -> SimulatedCluster:
    brokers = (BrokerModel("a:1", PLAIN), BrokerModel("b:1", PLAIN))
    bundles = tuple(BundleModel(name, rate) for name, rate in (("big", 2000.0), ("mid", 1000.0), ("tiny", 100.0)))
    return SimulatedCluster(ClusterModel("c", brokers, bundles, noise=noise), {"big": "a:1", "mid": "a:1", "tiny": "b:1"})


def test_a_brokers_cpu_is_the_price_of_its_bundles() -> None:
    cluster = small_cluster()
    cluster.measure()
    assert cluster.figures("a:1").cpu.usage == pytest.approx(60.0)  # 3000 in + 3000 out at 0.01
    assert cluster.figures("b:1").cpu.usage == pytest.approx(2.0)


def test_a_bundle_takes_its_traffic_along() -> None:
    cluster = small_cluster()
    cluster.measure()
    cluster.move("mid", "b:1")
    assert cluster.owner("mid") == "b:1"
    assert cluster.figures("a:1").cpu.usage == pytest.approx(40.0)
    assert cluster.figures("b:1").cpu.usage == pytest.approx(22.0)


def test_no_machine_does_more_than_it_can() -> None:
    cluster = small_cluster()
    cluster.carry("big", 9000.0)
    cluster.measure()
    figures = cluster.figures("a:1")
    assert percent(figures.cpu) == 100.0
    assert figures.traffic.msg_rate_in == pytest.approx(10_000.0)


def test_gains_and_losses_are_reported_once() -> None:
    cluster = small_cluster()
    cluster.measure()
    for broker in cluster.brokers:
        cluster.report(broker, 1, 1)
    cluster.move("mid", "b:1")
    giver, taker = cluster.report("a:1", 2, 2), cluster.report("b:1", 2, 2)
    assert (giver.gains, giver.losses) == ((), ("mid",))
    assert (taker.gains, taker.losses) == (("mid",), ())
    assert cluster.report("b:1", 3, 3).gains == ()


def test_an_unload_without_destination_goes_to_the_lowest_long_term_rate_but_never_back() -> None:
    cluster = small_cluster()
    cluster.measure()
    assert least_long_term_rate(cluster, "big") == "b:1"
    cluster.move("big", "b:1")
    cluster.move("mid", "b:1")
    assert least_long_term_rate(cluster, "tiny") == "a:1"


def test_the_same_seed_reports_the_same_bytes_and_another_seed_does_not() -> None:
    def first_two_passes(seed: int) -> list[bytes]:
        cluster = skewed_cluster(seed=seed)
        return [to_json(seen) for _ in range(2) for seen in collection_pass(cluster)]

    assert first_two_passes(7) == first_two_passes(7)
    assert first_two_passes(7) != first_two_passes(8)


def test_figures_wander_from_period_to_period_around_the_truth() -> None:
    cluster = small_cluster(Noise(traffic=0.1, cpu=0.0))
    rates = []
    for _ in range(200):
        cluster.measure()
        rates.append(cluster.figures("b:1").traffic.msg_rate_in)
    assert len(set(rates)) > 190
    assert 90.0 <= min(rates) < max(rates) <= 110.0
    assert np.mean(rates) == pytest.approx(100.0, abs=1.5)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_skewed_cluster_starts_as_it_says(seed: int) -> None:
    cluster = skewed_cluster(seed=seed)
    cluster.measure()
    usage = [percent(cluster.figures(name).cpu) / 100 for name in cluster.brokers]
    assert usage == pytest.approx(SKEW, abs=0.02)
    assert sum(cluster.figures(name).bundle_count for name in cluster.brokers) == 256

"""A cluster whose brokers and bundles are all named: traffic costs CPU, bundles take it along, the
seed decides everything.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.clusters import SKEW, skewed_cluster
from pulsar_rebalancer.lab.simulation.leader import LongTermRates
from pulsar_rebalancer.lab.simulation.noise import Wobble
from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster
from pulsar_rebalancer.lab.simulation.scenarios.schema import Machine
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from strategies.cluster.model import Figures, LoadReport
from strategies.figures.usage import percent
from tests.modelled import carry, steady_cluster

#: One core, 1 % of it per message/s, bytes are free.
PLAIN = Machine(cores=1, cpu_idle=0, cpu_per_kmsg=10)
BIG, MID, TINY = (
    "t/n/0x00000000_0x40000000",
    "t/n/0x40000000_0x80000000",
    "t/n/0x80000000_0xffffffff",
)


def small_cluster(chance: Wobble | None = None) -> PolledCluster:
    rates, owners = {BIG: 2000.0, MID: 1000.0, TINY: 100.0}, {BIG: "a:1", MID: "a:1", TINY: "b:1"}
    return steady_cluster(
        "c",
        {"a:1": PLAIN, "b:1": PLAIN},
        rates,
        owners,
        chance=chance or Wobble(traffic_part=0, cpu_part=0),
    )


def move(cluster: PolledCluster, bundle: str, destination: str) -> None:
    world = cluster.world
    world.move(world.names.index(bundle), world.fleet.names.index(destination), 0, 0)


def figures(cluster: PolledCluster) -> Mapping[str, Figures]:
    """Of the next pass, by broker."""
    reports = [seen for seen in cluster.collect() if isinstance(seen, LoadReport)]
    return {report.broker: report.figures for report in reports if report.figures is not None}


def test_a_bundle_takes_its_traffic_and_its_price_along() -> None:
    cluster = small_cluster()
    found = figures(cluster)
    assert found["a:1"].cpu.usage == pytest.approx(60.0)  # 3000 in + 3000 out at 0.01
    assert found["b:1"].cpu.usage == pytest.approx(2.0)
    move(cluster, MID, "b:1")
    found = figures(cluster)
    assert found["a:1"].cpu.usage == pytest.approx(40.0)
    assert found["b:1"].cpu.usage == pytest.approx(22.0)


def test_no_machine_does_more_than_it_can() -> None:
    cluster = small_cluster()
    carry(cluster, BIG, 9000.0)
    found = figures(cluster)["a:1"]
    assert percent(found.cpu) == 100.0
    assert found.traffic.msg_rate_in == pytest.approx(10_000.0)


def test_gains_and_losses_are_reported_once_and_a_new_bundle_is_listed_last() -> None:
    cluster = small_cluster()
    writer = TelemetryWriter(cluster.start_ms)

    def reports() -> dict[str, Any]:
        told = [json.loads(writer.json(seen)) for seen in cluster.collect()]
        return {one["broker"]: one["report"] for one in told if one["kind"] == "load-report"}

    reports()
    move(cluster, MID, "b:1")
    now = reports()
    assert (now["a:1"]["lastBundleGains"], now["a:1"]["lastBundleLosses"]) == ([], [MID])
    assert (now["b:1"]["lastBundleGains"], now["b:1"]["lastBundleLosses"]) == ([MID], [])
    assert now["b:1"]["bundles"] == [TINY, MID]
    assert reports()["b:1"]["lastBundleGains"] == []


def test_an_unload_without_destination_goes_to_the_lowest_long_term_rate() -> None:
    cluster = small_cluster()
    rates = LongTermRates(cluster.world)

    def goes_to(bundle: str) -> list[str | None]:
        return rates.places([(bundle, "")], ["a:1", "b:1"])

    cluster.collect()
    rates.learn()
    assert goes_to(BIG) == ["b:1"]
    move(cluster, BIG, "b:1")
    move(cluster, MID, "b:1")
    assert goes_to(TINY) == ["a:1"]
    assert rates.places([(BIG, "a:1")], []) == [None]


def test_figures_wander_from_period_to_period_around_the_truth() -> None:
    cluster = small_cluster(Wobble(traffic_part=0.1, cpu_part=0.0))
    rates = [figures(cluster)["b:1"].traffic.msg_rate_in for _ in range(200)]
    assert len(set(rates)) > 190
    assert 90.0 <= min(rates) < max(rates) <= 110.0
    assert np.mean(rates) == pytest.approx(100.0, abs=1.5)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_skewed_cluster_starts_as_it_says(seed: int) -> None:
    found = figures(skewed_cluster(seed=seed)).values()
    assert [percent(one.cpu) / 100 for one in found] == pytest.approx(SKEW, abs=0.02)
    assert sum(one.bundle_count for one in found) == 256

"""Small modelled clusters with every broker and every bundle named: brokers measure together, moves
show at once, none has a ceiling.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import Ownership, World
from pulsar_rebalancer.lab.simulation.clock import START_MS
from pulsar_rebalancer.lab.simulation.demand import steady_demand
from pulsar_rebalancer.lab.simulation.machine_usage import fleet_from
from pulsar_rebalancer.lab.simulation.noise import Wobble
from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster
from pulsar_rebalancer.lab.simulation.scenarios.schema import Machine, Scenario


def steady_cluster(
    name: str,
    machines: Mapping[str, Machine],
    rates: Mapping[str, float],
    owners: Mapping[str, str],
    *,
    chance: Wobble,
    message_bytes: float = 1024.0,
    start_ms: int = START_MS,
) -> PolledCluster:
    """`rates`: messages/s in by bundle; `owners`: bundle → broker, in the order in which brokers
    took their bundles over.
    """
    brokers, bundles = list(machines), list(rates)
    owner = np.array([brokers.index(owners[bundle]) for bundle in bundles], dtype=np.int64)
    world = World(
        names=bundles,
        fleet=fleet_from(brokers, list(machines.values()), ceiling=np.inf),
        demand=steady_demand(list(rates.values()), message_bytes),
        ownership=Ownership(
            owner, order=np.array([bundles.index(bundle) for bundle in owners], dtype=np.int64)
        ),
        chance=chance,
    )
    return PolledCluster(world, name, start_ms)


def carry(cluster: PolledCluster, bundle: str, msg_rate_in: float) -> None:
    """From the next period on the bundle takes in this many messages/s."""
    cluster.world.demand.flows[0].rate[cluster.world.names.index(bundle)] = msg_rate_in


def a_scenario(
    names: str = "ab", bundles: int = 4, cpu_per_mib: float = 25, **changes: Any
) -> Scenario:
    """Equal brokers of these names without noise, and bundles of 1 MiB/s in and out each, in
    messages of 1 KiB.
    """
    told = {
        "title": "a scenario",
        "minutes": 10,
        "bundles": bundles,
        "machines": {"plain": {"cores": 10, "cpu_idle": 10, "cpu_per_mib": cpu_per_mib}},
        "brokers": [{"machine": "plain", "names": list(names)}],
        "traffic": [{"name": "all", "mib_in": bundles, "even": True}],
    }
    return Scenario.model_validate(told | changes)

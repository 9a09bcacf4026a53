"""The demo's cluster, skewed as after restarts: two brokers returned nearly empty, two others still
carry the bundles they took over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pulsar_rebalancer.lab.simulation.closed_loop import PolledCluster
from pulsar_rebalancer.lab.simulation.clusters.drawn import bundle_names, largest_first
from pulsar_rebalancer.lab.simulation.demand import steady_demand
from pulsar_rebalancer.lab.simulation.fleet import FULL, fleet_from
from pulsar_rebalancer.lab.simulation.noise import Stream, Wobble
from pulsar_rebalancer.lab.simulation.ownership import Ownership
from pulsar_rebalancer.lab.simulation.scenarios.schema import Machine
from pulsar_rebalancer.lab.simulation.world import Layout, World
from strategies.bundles.bundle_loads import Floats

#: CPU usage (fraction) of the brokers at the start: hot, average, nearly idle.
SKEW = (0.89, 0.54, 0.07, 0.47, 0.85, 0.11, 0.43, 0.36)
NAMESPACES = ("shop/orders", "shop/clicks")
#: Ratio of the busiest bundle's traffic to the quietest one's.
RATE_RATIO = 16.0
MESSAGE_BYTES = 1024.0
#: An invented machine with eight cores, fully busy at about 280 MB/s of 1 KiB messages in + out.
MACHINE = Machine(
    cores=8, cpu_idle=2, cpu_per_kmsg=2, cpu_per_mib=0.524288, direct_memory_per_mib=4.194304
)


def skewed_cluster(
    cluster: str = "demo", seed: int = 1, bundles: int = 256, usage: Sequence[float] = SKEW
) -> PolledCluster:
    """A cluster whose brokers start at about the given CPU `usage`, one entry per broker; names and
    figures follow from the seed.

    All brokers measure at the same time, and the next figures show the whole effect of a move.
    """
    fleet = fleet_from(
        [f"broker-{number + 1}:8080" for number in range(len(usage))],
        [MACHINE] * len(usage),
        ceiling=np.inf,
    )
    wanted = np.maximum(0.0, np.array(usage) * FULL - fleet.idle)
    costs = _shares(bundles, seed) * wanted.sum()
    owner = largest_first(costs, wanted, [np.arange(len(usage))] * bundles)
    per_message = 2 * (fleet.per_message[0] + MESSAGE_BYTES * fleet.per_byte[0])
    layout = Layout(
        names=[
            name
            for place, namespace in enumerate(NAMESPACES)
            for name in bundle_names(namespace, (bundles + 1 - place) // 2)
        ],
        fleet=fleet,
        demand=steady_demand(
            [round(cost / per_message, 1) for cost in costs.tolist()], MESSAGE_BYTES
        ),
        ownership=Ownership(owner, order=np.argsort(-costs, kind="stable")),
        chance=Wobble(seed),
    )
    return PolledCluster(World(layout), cluster)


def _shares(bundles: int, seed: int) -> Floats:
    """float64[bundles]: each bundle's share of all traffic, many small ones and a few large; sums
    to 1.
    """
    weights = 1.0 / (1.0 - (1.0 - 1.0 / RATE_RATIO) * Stream(seed, 0).uniform(bundles))
    return np.asarray(weights / weights.sum(), dtype=np.float64)

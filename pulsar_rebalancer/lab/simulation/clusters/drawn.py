"""The initial cluster of a scenario file. Values that the file does not fix are drawn from the
seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.clusters.initial_owners import initial_owners
from pulsar_rebalancer.lab.simulation.demand import demand_of
from pulsar_rebalancer.lab.simulation.fleet import fleet_of
from pulsar_rebalancer.lab.simulation.noise import Drifting, Stream
from pulsar_rebalancer.lab.simulation.ownership import Ownership
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario
from pulsar_rebalancer.lab.simulation.throttled_traffic import limits_of
from pulsar_rebalancer.lab.simulation.world import Layout, World
from strategies.bundles.bundle_loads import Floats
from strategies.bundles.ranges import KeyRange, initial_boundaries


def drawn_world(scenario: Scenario, seed: int) -> World:
    """The cluster of a scenario and seed, the same on every machine."""
    streams = {
        purpose: Stream(seed, number)
        for number, purpose in enumerate(
            ("fleet", "demand", "deal", "phase", "noise", "client", "costs")
        )
    }
    fleet = fleet_of(scenario, streams["fleet"])
    demand = demand_of(scenario, streams["demand"])
    count = len(fleet.names)
    first = demand.between(
        np.full(count, -PERIOD_S), np.zeros(count), np.zeros(scenario.bundles, dtype=np.int64)
    )
    costs = bundle_costs(scenario, streams["costs"])
    if costs is not None and scenario.start.deal == "usage":
        first = first * costs
    layout = Layout(
        names=[
            name
            for namespace, rows in scenario.places.items()
            for name in bundle_names(namespace, len(rows))
        ],
        fleet=fleet,
        demand=demand,
        ownership=Ownership(initial_owners(scenario, first, fleet, streams["deal"])),
        chance=Drifting(
            scenario.noise, scenario.bundles, count, streams["noise"], streams["client"]
        ),
        lag_s=streams["phase"].uniform(count) * (PERIOD_S - 1.0),
        dispatching=limits_of(scenario, fleet, demand, PERIOD_S),
        catch_up=scenario.catch_up,
        costs=costs,
    )
    return World(layout)


def bundle_costs(scenario: Scenario, stream: Stream) -> Floats | None:
    """float64[bundles]: the factor by which each bundle uses more CPU than its traffic shows; None
    if none does.
    """
    part = scenario.disturbances.bundle_cost
    return 1.0 + part * (2.0 * stream.uniform(scenario.bundles) - 1.0) if part else None


def bundle_names(namespace: str, bundles: int) -> Iterator[str]:
    """The names of a new namespace's bundles."""
    return (
        f"{namespace}/{KeyRange(low, high)}" for low, high in pairwise(initial_boundaries(bundles))
    )

"""The initial cluster of a scenario file. Values that the file does not fix are drawn from the
seed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import Ownership, World
from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.demand import demand_of, initial_boundaries, steady_demand
from pulsar_rebalancer.lab.simulation.dispatch_limits.throttled_traffic import limits_of
from pulsar_rebalancer.lab.simulation.machine_usage import FULL, Fleet, fleet_from, fleet_of
from pulsar_rebalancer.lab.simulation.noise import Drifting, Stream, Wobble
from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster
from pulsar_rebalancer.lab.simulation.scenarios.schema import Machine, Scenario, Start
from strategies.bundles import Floats, Ints, KeyRange


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
    if scenario.start.deal == "usage":
        first = first * costs
    return World(
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
        dispatching=limits_of(scenario, fleet, demand),
        catch_up=scenario.catch_up,
        costs=costs,
    )


def bundle_costs(scenario: Scenario, stream: Stream) -> Floats:
    """float64[bundles]: the factor by which each bundle uses more CPU than its traffic shows."""
    part = scenario.disturbances.bundle_cost
    return 1.0 + part * (2.0 * stream.uniform(scenario.bundles) - 1.0)


def bundle_names(namespace: str, bundles: int) -> Iterator[str]:
    """The names of a new namespace's bundles."""
    return (
        f"{namespace}/{KeyRange(low, high)}" for low, high in pairwise(initial_boundaries(bundles))
    )


def initial_owners(scenario: Scenario, traffic: Floats, fleet: Fleet, stream: Stream) -> Ints:
    """int64[bundles]: the owner of each. `traffic`: float64[4 or more, bundles]. Only brokers that
    are present at minute 0 get bundles.

    A bundle goes to a broker on which the isolation policies allow its namespace.
    """
    there = np.flatnonzero(fleet.joins_s == 0)
    homes = _homes(scenario, there)
    match scenario.start.deal:
        case "random":
            return np.array(
                [
                    home[int(place * len(home))]
                    for home, place in zip(
                        homes, stream.uniform(scenario.bundles).tolist(), strict=True
                    )
                ],
                dtype=np.int64,
            )
        case "even":
            return _in_turn(homes, np.argsort(stream.uniform(scenario.bundles), kind="stable"))
        case "traffic" | "usage":
            return _by_size(scenario.start, traffic, fleet, there, homes)


def _homes(scenario: Scenario, there: Ints) -> list[Ints]:
    """The brokers that may serve each bundle."""
    names = scenario.broker_names
    found: list[Ints] = []
    for namespace, rows in scenario.places.items():
        allowed = set(scenario.allowed_at_first(namespace))
        found += [
            np.array(
                [broker for broker in there.tolist() if names[broker] in allowed], dtype=np.int64
            )
        ] * len(rows)
    return found


def _in_turn(homes: list[Ints], order: Ints) -> Ints:
    """Assigns bundles that may go to the same brokers to these in turn."""
    turns: Counter[bytes] = Counter()
    owner = np.empty(len(order), dtype=np.int64)
    for row in order.tolist():
        home = homes[row]
        owner[row] = home[turns[home.tobytes()] % len(home)]
        turns[home.tobytes()] += 1
    return owner


def _by_size(start: Start, traffic: Floats, fleet: Fleet, there: Ints, homes: list[Ints]) -> Ints:
    shares = np.array(start.shares, dtype=np.float64)
    messages, data = traffic[0] + traffic[1], traffic[2] + traffic[3]
    if start.deal == "traffic":
        size, wanted = data, shares / shares.sum() * data.sum()
    else:
        message, byte = fleet.per_message[there], fleet.per_byte[there]
        size = messages * message.mean() + data * byte.mean()
        # What each broker should carry above its idle usage, in usage of an average broker, scaled
        # so that all traffic is placed.
        carried = (
            np.maximum(shares - fleet.idle[there], 0.0)
            * (message.mean() + byte.mean())
            / (message + byte)
        )
        wanted = carried / carried.sum() * size.sum()
    missing = np.zeros(len(fleet.names))
    missing[there] = wanted
    return largest_first(size, missing, homes)


def largest_first(size: Floats, missing: Floats, homes: Sequence[Ints]) -> Ints:
    """int64[bundles]: assigns bundles from the largest on, each to the broker of its `homes` that
    is furthest below its target load. `missing`: float64[brokers], the target load; `homes`: the
    brokers that may serve each bundle.
    """
    missing, owner = missing.copy(), np.empty(len(size), dtype=np.int64)
    for row in np.argsort(-size, kind="stable").tolist():
        target = int(homes[row][missing[homes[row]].argmax()])
        missing[target] -= size[row]
        owner[row] = target
    return owner


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
    world = World(
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
    return PolledCluster(world, cluster)


def _shares(bundles: int, seed: int) -> Floats:
    """float64[bundles]: each bundle's share of all traffic, many small ones and a few large; sums
    to 1.
    """
    weights = 1.0 / (1.0 - (1.0 - 1.0 / RATE_RATIO) * Stream(seed, 0).uniform(bundles))
    return np.asarray(weights / weights.sum(), dtype=np.float64)

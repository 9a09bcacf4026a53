"""Several namespaces in one modelled cluster: each has its bundles, its topics and its policies,
and nobody else's.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.requested_runs import RunRequest, StrategyChoice, make
from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.scenario_loop import run
from pulsar_rebalancer.lab.simulation.scenarios.read_scenarios import Named
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario
from strategies.bundles import namespace_of
from strategies.errors import SettingsError
from tests.modelled import a_scenario

OWN = {
    "namespaces": ["shop/orders"],
    "primary": ["a", "b"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}
WHO = ["avg/fixed", "threshold/parity", "uniform/parity", "transfer/fixed"]


def _scenario(**changes: Any) -> Scenario:
    """Four brokers; three quarters of the bundles and half of the traffic are orders, the rest is
    clicks.
    """
    told: dict[str, Any] = {
        "bundles": 16,
        "namespaces": [{"name": "shop/orders", "share": 3}, {"name": "shop/clicks"}],
        "traffic": [
            {"name": "orders", "namespace": "shop/orders", "mib_in": 8, "partitions": 50},
            {"name": "clicks", "namespace": "shop/clicks", "mib_in": 8, "even": True},
        ],
    }
    return a_scenario("abcd", **(told | changes))


def _owners(world: World) -> Mapping[str, set[str]]:
    """Namespace → the brokers that serve it."""
    found: dict[str, set[str]] = {}
    for name, owner in zip(world.names, world.ownership.owner.tolist(), strict=True):
        found.setdefault(namespace_of(name), set()).add(
            world.fleet.names[owner].removesuffix(":8080")
        )
    return found


def test_bundles_are_shared_out_and_topics_fall_on_their_own() -> None:
    world = drawn_world(_scenario(), 1)
    assert [namespace_of(name) for name in world.names] == ["shop/orders"] * 12 + [
        "shop/clicks"
    ] * 4
    assert world.names[0].startswith("shop/orders/0x00000000_")
    assert world.names[12] == "shop/clicks/0x00000000_0x40000000"
    orders, clicks = world.demand.flows
    assert (orders.topics[:12].sum(), orders.topics[12:].sum()) == (50, 0)
    assert clicks.topics.tolist() == [0] * 12 + [1] * 4
    world.measure(60)
    assert world.sampled[2, :12].sum() == pytest.approx(8 * 2**20)
    assert world.sampled[2, 12:].sum() == pytest.approx(8 * 2**20)


def test_one_namespace_of_another_name_is_the_same_cluster() -> None:
    flow = {"name": "all", "mib_in": 8}
    named = drawn_world(_scenario(namespaces=[{"name": "t/n"}], traffic=[flow]), 3)
    plain = drawn_world(a_scenario("abcd", 16, traffic=[flow]), 3)
    for world in (named, plain):
        world.measure(60)
    assert named.sampled.tobytes() == plain.sampled.tobytes()
    assert named.ownership.owner.tolist() == plain.ownership.owner.tolist()
    assert [name.replace("t/n", "public/simulated") for name in named.names] == plain.names


@pytest.mark.parametrize("bundles", [2, 7, 16, 101])
def test_every_bundle_has_one_namespace(bundles: int) -> None:
    shares = [{"name": "t/a", "share": 0.3}, {"name": "t/b", "share": 0.3}]
    flow = {"name": "x", "namespace": "t/a", "mib_in": 1}
    places = _scenario(bundles=bundles, namespaces=shares, traffic=[flow]).places
    assert [row for rows in places.values() for row in rows] == list(range(bundles))


@pytest.mark.parametrize(
    "start",
    [
        {"deal": "random"},
        {"deal": "even"},
        {"deal": "traffic", "shares": [4, 3, 2, 1]},
        {"deal": "usage", "shares": [40, 30, 20, 15]},
    ],
)
def test_bundles_begin_where_isolation_allows(start: Mapping[str, Any]) -> None:
    assert _owners(drawn_world(_scenario(start=start), 1))["shop/orders"] > {"a", "b"}
    owners = _owners(drawn_world(_scenario(start=start, policies={"isolation": {"own": OWN}}), 1))
    assert owners["shop/orders"] == {"a", "b"}
    assert owners["shop/clicks"] == {"c", "d"}


@pytest.mark.heavy
@pytest.mark.parametrize("who", WHO)
def test_an_isolation_policy_binds_its_namespace_in_rounds_and_when_a_broker_dies(who: str) -> None:
    task = RunRequest("namespaces", 1, StrategyChoice.read(who)).task()
    done = run(task)
    moves = [move for move in done.timeline.moves if move.happened]
    orders = [move for move in moves if namespace_of(move.bundle) == "shop/orders"]
    others = [move for move in moves if namespace_of(move.bundle) != "shop/orders"]
    assert {move.destination for move in orders} <= {"own-1:8080", "own-2:8080"}
    assert any(move.kind == "placed" for move in others)
    assert all(
        move.destination is not None and move.destination.startswith("shared-") for move in others
    )


@pytest.mark.heavy
def test_orders_are_evened_out_between_their_own_brokers() -> None:
    done = make(RunRequest("namespaces", 1, StrategyChoice.read("avg/fixed")), keep=True)
    assert done.timeline is not None
    own = [done.timeline.brokers.index(f"own-{number}:8080") for number in (1, 2)]
    first, last = done.timeline.lasting[0, own], done.timeline.lasting[-1, own]
    assert abs(last[0] - last[1]) < abs(first[0] - first[1]) / 2


@pytest.mark.parametrize("who", WHO)
def test_a_group_is_kept_apart_by_whoever_places(who: str) -> None:
    """Three namespaces of a group are on three brokers: when one dies its bundle has to go to the
    fourth, which is the fullest.
    """
    bank = ("bank/one", "bank/two", "bank/three")
    told = _scenario(
        bundles=4,
        minutes=12,
        namespaces=[{"name": name} for name in ("shop/clicks", *bank)],
        policies={"anti_affinity": dict.fromkeys(bank, "ledgers")},
        traffic=[
            {"name": "clicks", "namespace": "shop/clicks", "mib_in": 9, "even": True},
            *({"name": name, "namespace": name, "mib_in": 1, "even": True} for name in bank),
        ],
        happenings=[{"minute": 4, "kind": "kill", "brokers": ["a"]}],
        start={"deal": "traffic", "shares": [1, 1, 1, 9]},
    )
    task = RunRequest("namespaces", 1, StrategyChoice.read(who)).task()
    done = run(replace(task, named=Named("group", "", told)))
    assert [move.destination for move in done.timeline.moves if move.kind == "placed"] == ["d:8080"]
    assert sorted(done.world.ownership.owner[1:].tolist()) == [1, 2, 3]


def test_the_limit_of_a_namespace_counts_for_its_topics_only() -> None:
    spaces = [
        {"name": "shop/orders", "share": 3},
        {"name": "shop/clicks", "dispatch": {"topic": {"messages": 100}}},
    ]
    world = drawn_world(_scenario(namespaces=spaces), 1)
    world.measure(60)
    assert world.sampled[1, :12].sum() == pytest.approx(8 * 1024)
    assert world.sampled[1, 12:] == pytest.approx(np.full(4, 100), rel=0.002)


def test_the_number_of_bundles_may_be_another_and_too_few_is_said() -> None:
    made = make(RunRequest("namespaces", 1, changes={"bundles": 640, "minutes": 2}))
    assert made.figures is not None
    with pytest.raises(SettingsError, match="leave none for"):
        RunRequest("namespaces", 1, changes={"bundles": 8}).task()

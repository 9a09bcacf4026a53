"""What the modelled executor carries out and refuses, and that the next reports show it."""

from dataclasses import replace
from typing import Any

import pytest

from pulsar_rebalancer.lab.simulation.clock import START_MS
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.executor_and_outage_model import REACTION_S
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    PolledCluster,
)
from strategies.cluster.model import Command, LoadReport
from tests.control_topic import command

IDLEST, NOW_MS = "broker-3:8080", START_MS + 1000


def owner_of(cluster: PolledCluster, bundle: str) -> str | None:
    owners = dict(zip(cluster.world.names, cluster.world.ownership.owner.tolist(), strict=True))
    return cluster.world.fleet.names[owners[bundle]] if bundle in owners else None


@pytest.fixture
def cluster() -> PolledCluster:
    made = skewed_cluster()
    made.collect()
    return made


@pytest.fixture
def move(cluster: PolledCluster) -> Command:
    """Of the first bundle to the idlest broker."""
    bundle = cluster.world.names[0]
    return command(bundle, str(owner_of(cluster, bundle)), IDLEST, issued_at_ms=0)


def test_an_executor_applies_a_command_once(cluster: PolledCluster, move: Command) -> None:
    first, second = cluster.carry_out((move, move), NOW_MS)
    assert (first.status, first.owner_before, first.owner_after) == ("applied", move.source, IDLEST)
    assert first.ts == NOW_MS + int(REACTION_S * 1000) + first.took_ms
    assert (second.status, second.took_ms, second.owner_after) == ("already-done", 0, IDLEST)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"destination": "nobody:1"}, "refused", "destination-gone"),
        ({"bundle": "no/such/0x00000000_0x80000000"}, "refused", "no-such-bundle"),
        ({"bundle": "pulsar/system/0x00000000_0x80000000"}, "refused", "system-bundle"),
        ({"source": "broker-8:8080"}, "refused", "moved-on"),
        ({"action": "throttle"}, "refused", "advice"),
        ({"expires_at_ms": 5}, "expired", "expired"),
    ],
)
def test_an_executor_refuses_what_a_real_one_refuses(
    cluster: PolledCluster, move: Command, change: dict[str, Any], status: str, code: str
) -> None:
    changed = replace(move, **change)
    (outcome,) = cluster.carry_out((changed,), NOW_MS)
    assert (outcome.status, outcome.owner_after) == (status, owner_of(cluster, changed.bundle))
    assert str(outcome.reason).startswith(f"{code}: ")


def test_a_bundle_that_is_unloaded_never_comes_back_to_the_idlest_broker(
    cluster: PolledCluster,
) -> None:
    bundle = next(name for name in cluster.world.names if owner_of(cluster, name) == IDLEST)
    (outcome,) = cluster.carry_out((command(bundle, IDLEST, issued_at_ms=0),), NOW_MS)
    assert (outcome.status, outcome.owner_after) == ("applied", "broker-6:8080")


def test_a_split_leaves_two_bundles_on_the_broker(cluster: PolledCluster, move: Command) -> None:
    split = replace(move, action="split", destination=None)
    (outcome,) = cluster.carry_out((split,), NOW_MS)
    assert (outcome.status, outcome.owner_after) == ("applied", move.source)
    seen = [one for one in cluster.collect() if isinstance(one, LoadReport)]
    report, *_ = (one for one in seen if one.broker == move.source)
    assert report.bundles is not None
    halves = {"shop/orders/0x00000000_0x01000000", "shop/orders/0x01000000_0x02000000"}
    assert halves <= set(report.bundles.names)
    assert move.bundle not in report.bundles.names

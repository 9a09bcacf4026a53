"""Dispatch limits in a modelled cluster: what goes out, what waits, and how consumers catch up;
stories and what must always hold.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    BrokerRates,
    DispatchRate,
    PublishRate,
    RatePolicies,
    Scope,
    absolute,
    effective,
)
from pulsar_rebalancer.lab.simulation.noise import Stream
from strategies.bundles import Floats
from tests.modelled import a_scenario

MIB = 2**20
#: Looks are a thousandth more than a second apart, and what a full bucket is given is lost.
CLOSE = 0.002
TOPIC, NAMESPACE = DispatchRate(100), DispatchRate(200)
NOTHING = DispatchRate(-1, -1)


def _world(
    *traffic: Mapping[str, Any],
    seed: int = 1,
    dispatch: Mapping[str, Any] | None = None,
    **changes: Any,
) -> World:
    """One broker with four bundles, no noise; flows of 1 KiB messages, 4 MiB/s in and out unless
    they say otherwise.
    """
    told: dict[str, Any] = {
        "brokers": [{"machine": "plain", "names": ["a"], "dispatch": dispatch or {}}],
        "traffic": [
            {"name": f"flow-{place}", "mib_in": 4, "even": True, **flow}
            for place, flow in enumerate(traffic or ({},))
        ],
    }
    return drawn_world(a_scenario(**(told | changes)), seed)


def _hour(world: World, minutes: int = 60) -> Floats:
    """float64[4, minutes]: what was measured of everything together; columns of a bundle table."""
    found = []
    for minute in range(minutes):
        world.measure(60.0 * minute)
        found.append(world.totals.sum(axis=1))
    return np.array(found).T


def test_no_limit_no_limiter() -> None:
    free, unreached = _world(), _world(dispatch={"broker": {"mib": 5}})
    assert free.dispatching is None
    assert unreached.dispatching is not None
    assert _hour(unreached, 5) == pytest.approx(_hour(free, 5), rel=1e-12)
    assert unreached.backlog.sum() == 0


@pytest.mark.parametrize("limiter", ["token_bucket", "classic"])
@pytest.mark.parametrize(
    ("dispatch", "policy", "messages"),
    [
        ({"broker": {"mib": 1}}, {}, 1024),
        ({"broker": {"messages": 1000}}, {}, 1000),
        ({"topic": {"messages": 300}}, {}, 4 * 300),
        ({"subscription": {"messages": 300}}, {}, 4 * 300),
        ({}, {"topic": {"mib": 0.5}}, 4 * 512),
        ({}, {"topic": {"messages": 30_000, "period_s": 60}}, 4 * 500),
        ({"topic": {"messages": 300}}, {"topic": {"messages": 500}}, 4 * 500),
        (
            {"topic": {"messages": 300}, "broker": {"messages": 700}},
            {"subscription": {"messages": 200}},
            700,
        ),
    ],
)
def test_what_goes_out_is_what_the_tightest_limit_lets_out(
    limiter: str, dispatch: Mapping[str, Any], policy: Mapping[str, Any], messages: int
) -> None:
    world = _world({"dispatch": policy}, dispatch=dispatch, dispatch_limiter=limiter)
    rate_in, rate_out, _, throughput_out = _hour(world, 10)
    assert rate_in == pytest.approx(np.full(10, 4096))
    assert rate_out.mean() == pytest.approx(messages, rel=CLOSE)
    assert throughput_out.mean() == pytest.approx(1024 * messages, rel=CLOSE)
    assert world.backlog.sum() == pytest.approx(600 * (4096 - rate_out.mean()))


@pytest.mark.heavy
def test_every_subscription_has_a_limit_of_its_own_and_the_topic_one_for_all() -> None:
    three = {"fan_out": 3, "dispatch": {"subscription": {"messages": 100}}}
    for topic, messages in (({}, 3 * 100), ({"topic": {"messages": 120}}, 120)):
        out = _hour(_world(three, dispatch=topic), 10)[1]
        assert out.mean() == pytest.approx(4 * messages, rel=CLOSE)


def test_a_relative_limit_is_above_what_is_published() -> None:
    pausing = {"kind": "on-off", "on_s": 600, "off_s": 600, "phase_s": 600}
    world = _world(
        {"consumers": pausing, "dispatch": {"topic": {"messages": 100, "relative": True}}}
    )
    out = _hour(world, 15)[1]
    assert out[12:] == pytest.approx(np.full(3, 4 * (1024 + 100)), rel=CLOSE)


def test_only_the_topics_with_a_limit_wait() -> None:
    world = _world({"dispatch": {"topic": {"messages": 100}}}, {"message_bytes": 4096})
    _hour(world, 10)
    assert world.dispatching is not None
    waiting = world.dispatching.backlog.sum(axis=1)
    assert waiting[0] > 0
    assert waiting[1] == 0
    assert world.totals[1].sum() == pytest.approx(4 * 100 + 1024, rel=CLOSE)


def test_those_on_a_broker_share_its_limit_in_proportion() -> None:
    world = _world({}, {"mib_in": 12}, dispatch={"broker": {"mib": 8}})
    _hour(world, 2)
    assert world.dispatching is not None
    small, large = world.dispatching.backlog.sum(axis=1)
    assert large == pytest.approx(3 * small)


def test_consumers_catch_up_when_there_is_less_to_send_and_then_all_is_as_it_was() -> None:
    busy = {"kind": "steps", "at": [[10, 2], [20, 0.5]]}
    world = _world({"wave": busy}, dispatch={"broker": {"mib": 5}})
    world.lag_s = np.zeros(1)
    waiting, out = [], []
    for minute in range(40):
        world.measure(60.0 * minute)
        waiting.append(float(world.backlog.sum()))
        out.append(float(world.totals[3].sum()) / MIB)
    assert waiting[:11] == [0] * 11
    assert waiting[20] == pytest.approx(600 * 3 * 1024, rel=0.01), (
        "3 MiB/s more than may go out, for ten minutes"
    )
    assert out[11:21] == pytest.approx([5] * 10, rel=CLOSE)
    assert out[22] == pytest.approx(4, rel=CLOSE), "twice as fast as usual"
    assert waiting[-1] == pytest.approx(0, abs=1e-3)
    assert out[-1] == pytest.approx(2)


def test_throttled_traffic_costs_no_cpu_and_lasts_so() -> None:
    costly = {"plain": {"cores": 10, "cpu_idle": 10, "cpu_per_mib": 100}}
    world = _world(dispatch={"broker": {"mib": 2}}, machines=costly)
    world.measure(60)
    assert world.cpu.tolist() == pytest.approx([10 + 10 * (4 + 2)], rel=CLOSE)
    usage, traffic = world.lasting(60)
    assert usage.tolist() == pytest.approx([0.7], rel=CLOSE)
    assert traffic[3].sum() / MIB == pytest.approx(2, rel=CLOSE)


def test_a_split_gives_nobody_more_than_the_limit_of_his_topic() -> None:
    world = _world(dispatch={"topic": {"messages": 100}})
    _hour(world, 2)
    world.split(0, 0x20000000)
    assert world.backlog.shape == (5,)
    world.measure(120)
    assert world.totals[1].sum() == pytest.approx(4 * 100, rel=CLOSE)


def test_the_limit_is_that_of_the_broker_that_serves_the_bundle() -> None:
    brokers = [
        {"machine": "plain", "names": ["slow"], "dispatch_mib": 1},
        {"machine": "plain", "names": ["free"]},
    ]
    world = _world(brokers=brokers)
    world.lag_s = np.zeros(2)
    world.measure(0)
    assert world.totals[3].tolist() == pytest.approx([MIB, 2 * MIB], rel=CLOSE)
    for row in world.rows_of(0).tolist():
        world.ownership.move(row, 1, down_s=30, up_s=30)
    world.measure(60)
    world.measure(120)
    assert world.totals[3][0] == 0
    assert world.totals[3][1] > 4 * MIB, "all there is, and what had to wait"


@pytest.mark.heavy
@pytest.mark.parametrize("limiter", ["token_bucket", "classic"])
@pytest.mark.parametrize(
    "dispatch",
    [
        {"broker": {"mib": 1.5}},
        {"broker": {"messages": 900, "mib": 2}},
        {"topic": {"messages": 211}},
        {"subscription": {"messages": 77}, "broker": {"mib": 1}},
    ],
)
def test_an_hour_lets_out_no_more_than_the_buckets_allow_and_keeps_the_rest(
    dispatch: dict[str, Any], limiter: str
) -> None:
    chance = Stream(len(limiter), len(str(dispatch)))
    partitions, fan_out = chance.whole((3, 9)), chance.whole((1, 3))
    steps = [(minute, 4 * float(chance.uniform(1)[0])) for minute in (7, 22, 40)]
    wave = {"kind": "steps", "at": steps}
    drawn = {"even": False, "partitions": partitions, "fan_out": fan_out, "wave": wave}
    world = _world(
        drawn, dispatch=dispatch, dispatch_limiter=limiter, noise={"traffic": 0.1, "wander": 0.1}
    )
    measured = _hour(world)
    out, data = measured[1].sum() * 60, measured[3].sum() * 60
    # An hour, and the full bucket it began with.
    seconds = 3601
    limits = {"broker": 1, "topic": partitions, "subscription": partitions * fan_out}
    for scope, limiters in limits.items():
        told = dispatch.get(scope, {})
        assert out <= told.get("messages", inf) * limiters * seconds
        assert data <= told.get("mib", inf) * MIB * limiters * seconds
    owed = measured[0].sum() * 60 * fan_out
    assert world.backlog.sum() == pytest.approx(owed - out, abs=1)
    assert (world.backlog >= 0).all()


@pytest.mark.parametrize(
    ("scope", "policies", "counts"),
    [
        ("topic", RatePolicies(), DispatchRate(7)),
        ("topic", RatePolicies(namespace=NAMESPACE), NAMESPACE),
        ("topic", RatePolicies(topic=TOPIC, namespace=NAMESPACE), TOPIC),
        ("topic", RatePolicies(topic=NOTHING, namespace=NAMESPACE), NAMESPACE),
        ("topic", RatePolicies(topic=NOTHING), DispatchRate(7)),
        (
            "topic",
            RatePolicies(topic=DispatchRate(-1, 5), namespace=NAMESPACE),
            DispatchRate(-1, 5),
        ),
        ("subscription", RatePolicies(topic=TOPIC), TOPIC),
        ("subscription", RatePolicies(), DispatchRate()),
        ("broker", RatePolicies(topic=TOPIC, namespace=NAMESPACE), DispatchRate(9)),
    ],
)
def test_the_nearest_level_that_limits_anything_counts(
    scope: Scope, policies: RatePolicies, counts: DispatchRate
) -> None:
    assert effective(scope, policies, BrokerRates(messages=9, topic_messages=7)) == counts


def test_a_relative_rate_adds_what_is_published_and_leaves_unlimited_parts_alone() -> None:
    assert absolute(DispatchRate(10, -1, relative=True), PublishRate(49.9, 1e6)) == (59, 0)
    assert absolute(DispatchRate(10, 5), PublishRate(49.9, 1e6)) == (10, 5)

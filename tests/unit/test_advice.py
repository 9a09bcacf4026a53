"""When a dispatch limit is advised for a bundle that can be neither moved nor split."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.dispatch_limits.throttle_advice import (
    Advice,
    AdviceSettings,
    ReliefOptions,
    due_advice,
)
from strategies.splitting.bundle_limits import SplitSettings
from tests.world.brokers import MIB, ns, view
from tests.world.brokers import broker as a_broker
from tests.world.splits import broker as a_table

ONE_TOPIC = SplitSettings()


def full(
    name: str = "b1", mib: float = 80.0, rest: float = 20.0, topics: int = 1, bundle: str = ns(0)
) -> BrokerLoad:
    """A broker with one hot bundle, all of it dispatched, and a small one beside it."""
    small = {f"t/{name}/0x0_0x1": (1, 1, rest * 1024, rest * MIB)}
    table = a_table(f"{name}:1", {bundle: (topics, 9, mib * 1024, mib * MIB), **small}).bundles
    table = replace(table, short=table.short[:, [1, 0, 3, 2]])
    return replace(a_broker(name, 95.0, mib + rest), load_bundles=lambda: table)


def advice(
    *brokers: BrokerLoad,
    usage: Mapping[str, float] | None = None,
    relieving: Collection[str] = (),
    bundles: int = 4,
    busy: Collection[str] = (),
    advised: Mapping[str, int] | None = None,
    settings: AdviceSettings = AdviceSettings(),
    excluded: str = "",
) -> tuple[Advice, ...]:
    """Advice for brokers at 95 %, beside one that idles."""
    seen: ClusterView = replace(
        view(*brokers, a_broker("idle", 5.0)), is_excluded=lambda bundle: bundle == excluded
    )
    usages = {broker.broker: 0.95 for broker in brokers} | {"idle:1": 0.05} | dict(usage or {})
    return due_advice(
        seen,
        usages,
        ReliefOptions(
            lambda _, __: bool(relieving), lambda _: bundles, ONE_TOPIC, busy, advised or {}
        ),
        settings,
    )


def told(found: Collection[Advice]) -> list[str]:
    return [one.decision.bundle for one in found]


def test_the_limit_and_what_it_would_do() -> None:
    """Ten points of 95 are 10.53 of 100 MiB/s; the bundle dispatches 80."""
    (one,) = advice(full())
    decided = one.decision
    assert (decided.source, decided.destination, decided.code) == ("b1:1", None, "hot-bundle")
    assert dict(one.limits) == {
        "level": "topic",
        "dispatchThrottlingRateInMsg": int(1024 * 80 * (80 - 100 * 10 / 95) / 80),
        "dispatchThrottlingRateInByte": int((80 - 100 * 10 / 95) * MIB),
        "ratePeriodInSecond": 1,
        "relativeToPublishRate": False,
    }


def test_no_limit_is_below_a_tenth_of_what_is_dispatched() -> None:
    (one,) = advice(full(), usage={"b1:1": 10.0})
    assert one.limits["dispatchThrottlingRateInByte"] == 8 * MIB


def test_topics_share_it() -> None:
    (one,), (alone,) = advice(full(topics=4), bundles=128), advice(full())
    key = "dispatchThrottlingRateInByte"
    assert int(str(one.limits[key])) == int(str(alone.limits[key])) // 4


NO_FIGURES = [float("nan"), float("inf")]


@pytest.mark.parametrize(
    ("broker", "given", "expected"),
    [
        (full(), {"relieving": ["idle:1"]}, []),
        (full(topics=2), {}, []),
        (full(topics=2), {"bundles": 128}, [ns(0)]),
        (full(topics=1), {}, [ns(0)]),
        (full(), {"busy": ["b1:1"]}, []),
        (full(), {"advised": {ns(0): 0}}, []),
        (full(), {"usage": {"b1:1": 0.85}}, []),
        (replace(full(), settling=True), {}, []),
        (full(bundle="pulsar/system/0x00000000_0x40000000"), {}, []),
        (full(), {"excluded": ns(0)}, ["t/b1/0x0_0x1"]),
        *((full(), {"usage": {"b1:1": usage}}, []) for usage in NO_FIGURES),
    ],
    ids=(
        "a bundle that could move",
        "a bundle that could be split",
        "but for the number of bundles",
        "but for the number of topics",
        "a broker that other commands relieve",
        "a bundle that was mentioned already",
        "a broker at the limit exactly",
        "a broker that settles",
        "bundles of Pulsar itself",
        "a namespace that stays is not looked at",
        *(f"a broker whose usage is {usage}" for usage in NO_FIGURES),
    ),
)
def test_who_needs_none(broker: BrokerLoad, given: dict[str, Any], expected: list[str]) -> None:
    assert told(advice(broker, **given)) == expected


def test_a_single_broker_needs_none() -> None:
    ways = ReliefOptions(lambda _, __: False, lambda _: 4, ONE_TOPIC, (), {})
    assert due_advice(view(full()), {"b1:1": 0.95}, ways, AdviceSettings()) == ()


def test_fullest_brokers_first_and_not_too_much_at_once() -> None:
    brokers = [full(f"b{k}", bundle=ns(k)) for k in range(1, 4)]
    usage = {"b1:1": 0.9, "b2:1": 0.97, "b3:1": 0.93}
    assert told(advice(*brokers, usage=usage)) == [ns(2), ns(3), ns(1)]
    assert told(advice(*brokers, usage=usage, settings=AdviceSettings(per_round=1))) == [ns(2)]


def test_a_bundle_that_two_brokers_report_is_mentioned_once() -> None:
    assert told(advice(full("b1"), full("b2"))) == [ns(0)]

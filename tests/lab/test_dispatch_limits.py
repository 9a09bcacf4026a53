"""Which rate counts."""

import pytest

from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    BrokerRates,
    DispatchRate,
    PublishRate,
    RatePolicies,
    Scope,
    absolute,
    effective,
)

TOPIC, NAMESPACE = DispatchRate(100), DispatchRate(200)
NOTHING = DispatchRate(-1, -1)


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

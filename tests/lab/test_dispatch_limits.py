"""Which rate counts, and how more than the limit gets through."""

from __future__ import annotations

import pytest

from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    LIMITERS,
    BrokerRates,
    BucketLimiter,
    DispatchRate,
    PublishRate,
    RatePolicies,
    Scope,
    absolute,
    effective,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import SECOND_NS
from strategies.errors import SettingsError

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


def test_the_classic_limiter_refuses_a_policy_without_a_period() -> None:
    rate = DispatchRate(10, period_s=0)
    assert BucketLimiter.started(rate, 0).available.messages == 10
    with pytest.raises(SettingsError):
        LIMITERS["classic"](rate, 0, PublishRate(), "fixed")


def test_message_tokens_are_compared_with_entries() -> None:
    """Ten messages a second, six messages in an entry: ten entries hold sixty, and the debt takes
    five periods.
    """
    ten = BucketLimiter.started(DispatchRate(10), 0).charged(60, 0, 0)
    balances = [
        ten.seen((second * SECOND_NS) + second).available.messages for second in range(1, 7)
    ]
    assert balances == [0, 0, 0, 0, 0, 10]


def test_readers_of_a_shared_limit_see_the_same_tokens() -> None:
    """Check and charge are two steps: two dispatchers that check before either charges get twice
    the limit.
    """
    shared = BucketLimiter.started(DispatchRate(10), 0)
    reads = [shared.available.messages for _ in range(2)]
    assert reads == [10, 10]
    for messages in reads:
        shared = shared.charged(messages, 0, 0)
    assert shared.seen(SECOND_NS + 1).available.messages == 0, "the debt costs the next period"


@pytest.mark.parametrize(("limiter", "available"), [("token_bucket", 20), ("classic", 0)])
def test_a_new_policy_forgives_debt_in_buckets_but_not_in_counters(
    limiter: str, available: int
) -> None:
    used = LIMITERS[limiter](DispatchRate(10), 0, PublishRate(), "fixed").charged(30, 0, 0)
    assert used.updated(DispatchRate(20), 0).available.messages == available


def test_a_limiter_without_a_limit_says_so() -> None:
    assert BucketLimiter.started(DispatchRate(0, -1), 0).available == (-1, -1)
    assert BucketLimiter.started(DispatchRate(0, -1), 0).rates() == (-1, -1)

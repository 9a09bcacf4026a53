"""Which rate counts, which part of a read all limits together allow, and how more than the limit gets through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rebalancer.simulation.dispatch_limits.levels import Allowance, Limits, allowed, started
from rebalancer.simulation.dispatch_limits.limiters import BucketLimiter
from rebalancer.simulation.dispatch_limits.rates import BrokerRates, DispatchRate, PublishRate, RatePolicies, Scope, absolute, effective
from rebalancer.simulation.dispatch_limits.token_bucket import SECOND_NS
from strategies.errors import SettingsError

DISPATCH: tuple[Scope, ...] = ("broker", "topic", "subscription")
NOBODY: Mapping[Scope, RatePolicies] = {}


def limits(**messages: int) -> Limits:
    """Message limits per scope, as broker.conf sets them."""
    names = {"broker": "messages", "topic": "topic_messages", "subscription": "subscription_messages"}
    broker = replace(BrokerRates(), **{names[scope]: count for scope, count in messages.items()})
    return started(DISPATCH, NOBODY, broker, "token_bucket", now_ns=0)


def left(of: Limits) -> dict[Scope, int]:
    return {scope: limiter.available.messages for scope, limiter in of.limiters.items()}


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
        ("topic", RatePolicies(topic=DispatchRate(-1, 5), namespace=NAMESPACE), DispatchRate(-1, 5)),
        ("subscription", RatePolicies(topic=TOPIC), TOPIC),
        ("subscription", RatePolicies(), DispatchRate()),
        ("broker", RatePolicies(topic=TOPIC, namespace=NAMESPACE), DispatchRate(9)),
    ],
)
def test_the_nearest_level_that_limits_anything_counts(scope: Scope, policies: RatePolicies, counts: DispatchRate) -> None:
    assert effective(scope, policies, BrokerRates(messages=9, topic_messages=7)) == counts


def test_a_relative_rate_adds_what_is_published_and_leaves_unlimited_parts_alone() -> None:
    assert absolute(DispatchRate(10, -1, relative=True), PublishRate(49.9, 1e6)) == (59, 0)
    assert absolute(DispatchRate(10, 5), PublishRate(49.9, 1e6)) == (10, 5)


def test_all_levels_apply_together() -> None:
    assert allowed(limits(broker=80, topic=60, subscription=70), 100, 1000) == Allowance(60, 1000, ("broker", "topic"))


def test_an_empty_level_stops_the_read_and_is_named() -> None:
    dry = limits(broker=80, topic=60).charged(60, 0, 0)
    assert allowed(dry, 100, 1000) == Allowance(0, 1000, ("broker", "topic"))
    assert left(dry) == {"broker": 20, "topic": 0}


def test_without_limits_all_is_allowed() -> None:
    assert allowed(limits(), 100, 1000) == Allowance(100, 1000)


def test_bytes_limit_a_read_too() -> None:
    policies: Mapping[Scope, RatePolicies] = {"topic": RatePolicies(topic=DispatchRate(-1, 4096))}
    topic = started(DISPATCH, policies, BrokerRates(), "token_bucket", now_ns=0)
    assert allowed(topic, 100, 10_000) == Allowance(100, 4096, ("topic",))
    assert allowed(topic.charged(1, 4096, 0), 100, 10_000) == Allowance(100, 0, ("topic",))


def test_replicators_pass_only_their_own_limit() -> None:
    replicator = started(("replicator",), NOBODY, BrokerRates(messages=1, replicator_messages=30), "token_bucket", now_ns=0)
    assert left(replicator) == {"replicator": 30}


def test_the_classic_limiter_refuses_a_policy_without_a_period() -> None:
    policies: Mapping[Scope, RatePolicies] = {"topic": RatePolicies(topic=DispatchRate(10, period_s=0))}
    assert left(started(DISPATCH, policies, BrokerRates(), "token_bucket", now_ns=0)) == {"topic": 10}
    with pytest.raises(SettingsError):
        started(DISPATCH, policies, BrokerRates(), "classic", now_ns=0)


def test_message_tokens_are_compared_with_entries() -> None:
    """Ten messages a second, six messages in an entry: sixty get through, and the debt takes five periods."""
    ten = limits(subscription=10)
    assert allowed(ten, 100, 1000).entries == 10
    ten = ten.charged(60, 0, 0)
    balances = [left(ten.seen((second * SECOND_NS) + second))["subscription"] for second in range(1, 7)]
    assert balances == [0, 0, 0, 0, 0, 10]


def test_readers_of_a_shared_limit_see_the_same_tokens() -> None:
    """Check and charge are two steps: two dispatchers that check before either charges get twice the limit."""
    shared = limits(topic=10)
    reads = [allowed(shared, 100, 1000).entries for _ in range(2)]
    assert reads == [10, 10]
    for entries in reads:
        shared = shared.charged(entries, 0, 0)
    assert allowed(shared.seen(SECOND_NS + 1), 100, 1000).entries == 0, "the debt costs the next period"


def test_a_new_policy_forgives_debt_in_buckets_but_not_in_counters() -> None:
    for limiter, available in (("token_bucket", 20), ("classic", 0)):
        used = started(DISPATCH, NOBODY, BrokerRates(topic_messages=10), limiter, now_ns=0)
        topic = used.charged(30, 0, 0).limiters["topic"].updated(DispatchRate(20), 0)
        assert topic.available.messages == available


def test_a_limiter_without_a_limit_says_so() -> None:
    assert BucketLimiter.started(DispatchRate(0, -1), 0).available == (-1, -1)
    assert BucketLimiter.started(DispatchRate(0, -1), 0).rates() == (-1, -1)

"""Which rate counts, what all limits together leave of a read, what is charged, and how more than the limit gets through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rebalancer.simulation.dispatch_limits.levels import DISPATCH, REPLICATION, DispatchSettings, Limits, started
from rebalancer.simulation.dispatch_limits.limiters import BucketLimiter
from rebalancer.simulation.dispatch_limits.rates import BrokerRates, DispatchRate, PublishRate, RatePolicies, Scope, absolute, effective
from rebalancer.simulation.dispatch_limits.reading import (
    Dispatched,
    Dispatcher,
    ReadLedger,
    ReadSize,
    batch_after,
    charge,
    entries_for,
    is_active,
    messages_per_entry,
    next_read,
    wanted_entries,
)
from rebalancer.simulation.dispatch_limits.token_bucket import SECOND_NS
from strategies.errors import SettingsError

STOCK = DispatchSettings()
NOBODY: Mapping[Scope, RatePolicies] = {}
EAGER = Dispatcher(permits=1000, batch_entries=100)
MIB = 1024 * 1024


def limits(**messages: int) -> Limits:
    """Message limits per scope, as broker.conf sets them."""
    names = {"broker": "messages", "topic": "topic_messages", "subscription": "subscription_messages"}
    broker = replace(BrokerRates(), **{names[scope]: count for scope, count in messages.items()})
    return started(DISPATCH, NOBODY, broker, STOCK, now_ns=0)


def sent(entries: int, messages: int | None = None, bytes_: int = 0) -> Dispatched:
    return Dispatched(entries, entries if messages is None else messages, bytes_)


def left(of: Limits) -> dict[Scope, int]:
    return {scope: limiter.available.messages for scope, limiter in of.limiters.items()}


TOPIC, NAMESPACE, GLOBAL, OWN = (DispatchRate(messages) for messages in (100, 200, 300, 50))
NOTHING = DispatchRate(-1, -1)


@pytest.mark.parametrize(
    ("scope", "policies", "counts"),
    [
        ("topic", RatePolicies(), DispatchRate(7)),
        ("topic", RatePolicies(namespace=NAMESPACE), NAMESPACE),
        ("topic", RatePolicies(topic=TOPIC, namespace=NAMESPACE), TOPIC),
        ("topic", RatePolicies(topic_global=GLOBAL, namespace=NAMESPACE), GLOBAL),
        ("topic", RatePolicies(topic=NOTHING, namespace=NAMESPACE), NAMESPACE),
        ("topic", RatePolicies(topic=NOTHING), DispatchRate(7)),
        ("topic", RatePolicies(topic=DispatchRate(-1, 5), namespace=NAMESPACE), DispatchRate(-1, 5)),
        ("subscription", RatePolicies(own=OWN, topic=TOPIC), OWN),
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
    read = next_read(EAGER, limits(broker=80, topic=60, subscription=70), STOCK)
    assert read == ReadSize(60, 5 * MIB, ("broker", "topic"))


def test_an_empty_level_stops_the_read_and_is_named() -> None:
    dry = charge(sent(60), EAGER, limits(broker=80, topic=60), STOCK, 0)
    assert next_read(EAGER, dry, STOCK) == ReadSize(0, 0, ("broker", "topic"))
    assert left(dry) == {"broker": 20, "topic": 0}


def test_without_limits_permits_and_batch_decide() -> None:
    assert next_read(EAGER, limits(), STOCK) == ReadSize(100, 5 * MIB)
    assert next_read(replace(EAGER, permits=3), limits(), STOCK) == ReadSize(3, 5 * MIB)
    assert next_read(replace(EAGER, permits=0), limits(topic=5), STOCK) == ReadSize(0, 0)


def test_bytes_limit_a_read_too() -> None:
    policies: Mapping[Scope, RatePolicies] = {"topic": RatePolicies(topic=DispatchRate(-1, 4096))}
    topic = started(DISPATCH, policies, BrokerRates(), STOCK, now_ns=0)
    assert next_read(EAGER, topic, STOCK) == ReadSize(100, 4096, ("topic",))
    assert next_read(EAGER, charge(sent(1, bytes_=4096), EAGER, topic, STOCK, 0), STOCK) == ReadSize(0, 0, ("topic",))


def test_replicators_pass_only_their_own_limit() -> None:
    replicator = started(REPLICATION, NOBODY, BrokerRates(messages=1, replicator_messages=30), STOCK, now_ns=0)
    assert left(replicator) == {"replicator": 30}


def test_the_classic_limiter_refuses_a_policy_without_a_period() -> None:
    policies: Mapping[Scope, RatePolicies] = {"topic": RatePolicies(topic=DispatchRate(10, period_s=0))}
    assert left(started(DISPATCH, policies, BrokerRates(), STOCK, now_ns=0)) == {"topic": 10}
    with pytest.raises(SettingsError):
        started(DISPATCH, policies, BrokerRates(), replace(STOCK, limiter="classic"), now_ns=0)


def test_message_tokens_are_compared_with_entries() -> None:
    """Ten messages a second, six messages in an entry: sixty get through, and the debt takes five periods."""
    ten = limits(subscription=10)
    read = next_read(EAGER, ten, STOCK)
    assert read.entries == 10
    ten = charge(sent(10, messages=60), EAGER, ten, STOCK, 0)
    balances = [left(ten.seen((second * SECOND_NS) + second))["subscription"] for second in range(1, 7)]
    assert balances == [0, 0, 0, 0, 0, 10]


def test_precise_flow_control_divides_permits_not_tokens() -> None:
    precise = replace(STOCK, precise_flow_control=True)
    batches = replace(EAGER, permits=20, messages_per_entry=6)
    assert wanted_entries(batches, precise) == 4, "20 permits, 6 messages in an entry"
    assert wanted_entries(batches, STOCK) == 20
    assert next_read(replace(batches, permits=1000), limits(subscription=10), precise).entries == 10


def test_counting_batches_charges_entries() -> None:
    batches = replace(STOCK, count_batches=True)
    ten = charge(sent(10, messages=60), EAGER, limits(subscription=10), batches, 0)
    assert left(ten.seen(SECOND_NS + 1)) == {"subscription": 10}


def test_readers_of_a_shared_limit_see_the_same_tokens() -> None:
    """Look, read and charge are three steps: two dispatchers that look before either charges get twice the limit."""
    shared = limits(topic=10)
    reads = [next_read(EAGER, shared, STOCK).entries for _ in range(2)]
    assert reads == [10, 10]
    for entries in reads:
        shared = charge(sent(entries), EAGER, shared, STOCK, 0)
    assert next_read(EAGER, shared.seen(SECOND_NS + 1), STOCK).entries == 0, "the debt costs the next period"


def test_a_new_policy_forgives_debt_in_buckets_but_not_in_counters() -> None:
    for limiter, available in (("token_bucket", 20), ("classic", 0)):
        used = started(DISPATCH, NOBODY, BrokerRates(topic_messages=10), DispatchSettings(limiter=limiter), now_ns=0)  # type: ignore[arg-type]
        topic = used.charged(30, 0, 0).limiters["topic"].updated(DispatchRate(20), 0)
        assert topic.available.messages == available


def test_active_cursors_may_be_left_alone() -> None:
    lenient = replace(STOCK, throttle_active_cursors=False)
    ten = limits(topic=10)
    active = replace(EAGER, active=True)
    assert next_read(active, ten, lenient).entries == 100
    assert charge(sent(100), active, ten, lenient, 0) == ten
    assert next_read(replace(EAGER, active=False), ten, lenient).entries == 10


def test_a_cursor_is_active_while_it_keeps_up() -> None:
    assert is_active(has_consumers=True, backlog=10_000, settings=STOCK)
    assert not is_active(has_consumers=False, backlog=0, settings=STOCK)
    assert is_active(has_consumers=True, backlog=1000, settings=STOCK, by_expected_reads=False)
    assert not is_active(has_consumers=True, backlog=1001, settings=STOCK, by_expected_reads=False)


def test_filtered_entries_are_charged_only_when_asked_for() -> None:
    dispatched = Dispatched(2, 4, 100, filtered_entries=3, filtered_messages=5, filtered_bytes=50)
    for settings, messages in ((STOCK, 6), (replace(STOCK, charge_filtered=True), 1)):
        assert left(charge(dispatched, EAGER, limits(topic=10), settings, 0)) == {"topic": messages}


def test_consumers_that_cannot_write_get_one_entry() -> None:
    stuck = Dispatcher(permits=50, batch_entries=100, writable=False)
    assert wanted_entries(stuck, STOCK) == 1
    assert wanted_entries(replace(stuck, single_active=True), STOCK) == 1


def test_the_batch_shrinks_on_failure_and_doubles_on_success() -> None:
    size = batch_after(100, STOCK, succeeded=False)
    sizes = [size := batch_after(size, STOCK, succeeded=True) for _ in range(8)]
    assert sizes == [2, 4, 8, 16, 32, 64, 100, 100]


def test_messages_per_entry_follow_slowly() -> None:
    assert messages_per_entry(None, 10, 60) == 6
    assert messages_per_entry(6, 10, 10) == 6, "6 · 0.9 + 1 · 0.1 = 5.5"
    assert messages_per_entry(6, 10, 1000) == 15


@pytest.mark.parametrize(
    ("bytes_", "limit", "ledgers", "first", "entries"),
    [
        (0, 100, [ReadLedger(10, 1000)], 0, 1),
        (1000, 100, [], 0, 1),
        (1640, 100, [ReadLedger(10, 1000)], 0, 10),
        (1639, 100, [ReadLedger(10, 1000)], 0, 9),
        (10, 100, [ReadLedger(10, 1000)], 0, 1),
        (1640 + 2 * 1064, 100, [ReadLedger(10, 1000), ReadLedger(5, 5000)], 0, 12),
        (1640 + 2 * 1064, 11, [ReadLedger(10, 1000), ReadLedger(5, 5000)], 0, 11),
        (164 * 4, 100, [ReadLedger(10, 1000)], 8, 4),
        (3280, 100, [ReadLedger(10, 1000)], 0, 20),
    ],
)
def test_how_many_entries_fit_into_bytes(bytes_: int, limit: int, ledgers: list[ReadLedger], first: int, entries: int) -> None:
    assert entries_for(bytes_, limit, ledgers, first) == entries


def test_a_limiter_without_a_limit_says_so() -> None:
    assert BucketLimiter.started(DispatchRate(0, -1), 0).available == (-1, -1)
    assert BucketLimiter.started(DispatchRate(0, -1), 0).rates() == (-1, -1)

"""The traffic that dispatch limits admit in a statistics period: the limiters, checked once per
virtual second.

Topics of one flow in one bundle have equal traffic, so one of them represents all; topics on a
broker share its limit in proportion to their requests. Limiters are checked only where a limit can
bind: elsewhere their buckets stay full.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum, inf

import numpy as np

from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.demand import Demand, Part
from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    LIMITERS,
    BrokerRates,
    BucketLimiter,
    ClassicLimiter,
    DispatchRate,
    PublishRate,
    RatePolicies,
    Scope,
    effective,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import SECOND_NS
from pulsar_rebalancer.lab.simulation.machine_usage import Fleet, rate_of
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import TopicDispatch
from strategies.bundles import Bools, Floats, Ints

#: A throttled dispatcher reads again after a second. Timers fire slightly late; a bucket adds
#: tokens only after more than its period.
READ_INTERVAL_NS = 1001 * 1_000_000
READ_INTERVAL_S = READ_INTERVAL_NS / SECOND_NS


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """The brokers of each bundle in a period. `owner`, `before`: int64[bundles]; `now`, `was`: the
    part of the window of each.

    `end_s`: float64[brokers], end of each broker's window.
    """

    owner: Ints
    before: Ints
    now: Floats
    was: Floats
    end_s: Floats


class Gate:
    """The limiter of one scope. Tokens are integers, messages in the model are not: charges are
    rounded up.
    """

    def __init__(self, limiter: BucketLimiter | ClassicLimiter | None) -> None:
        """`limiter`: None if nothing is limited."""
        self._limiter = limiter
        self._ahead = [0.0, 0.0]

    def part(
        self, messages: float, data: float, now_ns: int, published: PublishRate = PublishRate()
    ) -> float:
        """The part (0–1) of these messages and bytes that the limits allow now."""
        if messages <= 0 or self._limiter is None:
            return 1.0
        self._limiter = self._limiter.seen(now_ns, published)
        left = self._limiter.available
        return min(
            1.0,
            _at_most(ceil(messages), left.messages) / messages,
            _at_most(ceil(data), left.bytes) / data,
        )

    def charge(self, messages: float, data: float, now_ns: int) -> None:
        """Charges what was sent."""
        if self._limiter is not None:
            missing = messages - self._ahead[0], data - self._ahead[1]
            whole = [max(0, ceil(one)) for one in missing]
            self._ahead = [charged - one for charged, one in zip(whole, missing, strict=True)]
            self._limiter = self._limiter.charged(whole[0], whole[1], now_ns)


@dataclass(slots=True, eq=False)
class _TopicGroup:
    """Topics with equal traffic on one broker: messages/s that they request, bytes per message, and
    unsent messages of this window.
    """

    rate: float
    size: float
    topic: Gate
    subscription: Gate
    topics: float = 1.0
    subscriptions: int = 1
    published: PublishRate = PublishRate()
    waiting: float = 0.0

    def request(self, now_ns: int) -> float:
        """Messages that the topics' own limits allow in this read."""
        self.waiting += self.rate * READ_INTERVAL_S
        each = self.waiting / self.topics / self.subscriptions
        part = self.subscription.part(each, each * self.size, now_ns, self.published)
        whole = each * part * self.subscriptions
        return self.waiting * (
            part * self.topic.part(whole, whole * self.size, now_ns, self.published)
        )

    def send(self, messages: float, now_ns: int) -> None:
        """Charges `messages` that the broker's limit allows too."""
        self.waiting -= messages
        whole = messages / self.topics
        self.topic.charge(whole, whole * self.size, now_ns)
        self.subscription.charge(
            whole / self.subscriptions, whole / self.subscriptions * self.size, now_ns
        )

    def through(self, reads: int) -> float:
        """The part of the requests of `reads` reads that was sent; exactly 1 if nothing waits."""
        return (
            1.0 - self.waiting / (self.rate * READ_INTERVAL_S * reads) if self.waiting > 0 else 1.0
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """The limits of one flow: policies by scope, and the messages and bytes that a topic and a
    subscription can always send.

    `sure`: float64[4, brokers]; requests below need no limiter.
    """

    policies: dict[Scope, RatePolicies]
    subscriptions: int
    sure: Floats


class Dispatching:
    """All dispatch limits of a world. `backlog`: float64[flows, bundles], unread messages.

    `held`: float64[2, bundles], messages/s and bytes/s sent in the last period of bundles that a
    limit held back; ∞ for others.
    """

    def __init__(self, scenario: Scenario, fleet: Fleet, demand: Demand) -> None:
        self._limiter, self._fleet, self._demand = scenario.dispatch_limiter, fleet, demand
        of_namespace = {namespace.name: namespace.dispatch for namespace in scenario.namespaces}
        self._rules = [
            _rule(
                traffic.dispatch,
                of_namespace[scenario.namespace_of(traffic)],
                traffic.fan_out,
                fleet.dispatch,
            )
            for traffic in scenario.traffic
        ]
        self._broker_sure = np.array([_sure(rates.of("broker")) for rates in fleet.dispatch]).T
        self._brokers: dict[int, Gate] = {}
        self._gates: dict[tuple[int, int, int], tuple[Gate, Gate]] = {}
        self._last_read: Ints | None = None
        self.backlog = np.zeros((len(demand.flows), scenario.bundles))
        self.held = np.full((2, scenario.bundles), inf)
        self._sent = self.backlog

    @property
    def limits_anything(self) -> bool:
        """Whether the scenario states any limit."""
        return bool(
            np.isfinite(self._broker_sure).any()
            or any(np.isfinite(rule.sure).any() for rule in self._rules)
        )

    def split(self) -> None:
        """Adds the new bundle of a split, without backlog."""
        self.backlog = np.concatenate([self.backlog, np.zeros((len(self.backlog), 1))], axis=1)
        self.held = np.concatenate([self.held, np.full((2, 1), inf)], axis=1)

    def serve(
        self, parts: Sequence[Part], chance: Floats, catch_up: float, there: Presence
    ) -> tuple[Floats, Floats]:
        """float64[2, bundles] twice: messages/s and bytes/s that the owner and the previous broker
        send. The rest becomes backlog.
        """
        read = np.stack([part.rate_out * chance for part in parts])
        owed = np.stack([part.owed * chance for part in parts])
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(read > 0, self.backlog / PERIOD_S / read, 0.0)
        request = read * (1.0 + np.minimum(left, catch_up - 1.0))
        now, was = self._through(request, [part.rate_in * chance for part in parts], there)
        unsent = request * ((1.0 - now) * there.now + (1.0 - was) * there.was)
        self.backlog = np.maximum(self.backlog + (owed - request + unsent) * PERIOD_S, 0.0)
        self._sent = request * now
        out = self._out(self._sent)
        self.held = np.where((now < 1.0).any(axis=0), out, inf)
        return out, self._out(request * was)

    def unsent(self, part: Floats, seconds: Floats) -> None:
        """Adds to the backlog the part (float64[bundles]) that brokers at their ceiling did not
        send, for these seconds.
        """
        self.backlog = self.backlog + self._sent * (part * seconds)

    def _out(self, messages: Floats) -> Floats:
        sizes = np.array([[flow.course.message_bytes] for flow in self._demand.flows])
        return np.stack([messages.sum(axis=0), (messages * sizes).sum(axis=0)])

    def _through(
        self, request: Floats, received: Sequence[Floats], there: Presence
    ) -> tuple[Floats, Floats]:
        """float64[flows, bundles] twice: the part of the requests that the owner and the previous
        broker send.
        """
        mine, theirs = np.flatnonzero(there.now > 0), np.flatnonzero(there.was > 0)
        rows, brokers = (
            np.concatenate([mine, theirs]),
            np.concatenate([there.owner[mine], there.before[theirs]]),
        )
        requests = request[:, rows] * np.concatenate([there.now[mine], there.was[theirs]])
        parts = np.ones_like(requests)
        held = np.stack(
            [
                self._may_bind(number, requests[number], rows, brokers)
                for number in range(len(requests))
            ]
        )
        reads = self._read_numbers(there.end_s)
        gates: dict[tuple[int, int, int], tuple[Gate, Gate]] = {}
        for broker in self._busy(requests, brokers, held):
            here = np.flatnonzero(brokers == broker)
            first = (reads[broker].start - 1) * READ_INTERVAL_NS
            bound: dict[tuple[int, int], _TopicGroup] = {}
            for flow, place in np.argwhere(held[:, here]).tolist():
                entry = int(here[place])
                key = (broker, flow, int(rows[entry]))
                gates[key] = self._gates.get(key) or self._own_gates(broker, flow, first)
                bound[flow, entry] = self._topic_group(
                    flow,
                    key[2],
                    float(requests[flow, entry]),
                    float(received[flow][rows[entry]]),
                    gates[key],
                )
            rest = self._rest(np.where(held[:, here], 0.0, requests[:, here]))
            _read_window(
                self._broker_gate(broker, first),
                [*bound.values(), rest] if rest.rate > 0 else list(bound.values()),
                reads[broker],
            )
            parts[:, here] = rest.through(len(reads[broker])) if rest.rate > 0 else 1.0
            for (flow, entry), one in bound.items():
                parts[flow, entry] = one.through(len(reads[broker]))
        self._gates = gates
        now, was = np.ones_like(request), np.ones_like(request)
        now[:, mine], was[:, theirs] = parts[:, : len(mine)], parts[:, len(mine) :]
        return now, was

    def _may_bind(self, number: int, requests: Floats, rows: Ints, brokers: Ints) -> Bools:
        rule, flow = self._rules[number], self._demand.flows[number]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(requests > 0, requests * READ_INTERVAL_S / flow.topics[rows], 0.0)
        asked = np.stack(
            [
                each,
                each * flow.course.message_bytes,
                each / rule.subscriptions,
                each * flow.course.message_bytes / rule.subscriptions,
            ]
        )
        return np.asarray((asked > rule.sure[:, brokers]).any(axis=0))

    def _busy(self, requests: Floats, brokers: Ints, held: Bools) -> list[int]:
        """Brokers on which a limit may bind."""
        sums = [
            np.bincount(brokers, column, minlength=len(self._fleet.names))
            for column in self._out(requests)
        ]
        full: Bools = np.asarray((np.stack(sums) * READ_INTERVAL_S > self._broker_sure).any(axis=0))
        full[brokers[held.any(axis=0)]] = True
        return [int(broker) for broker in np.flatnonzero(full)]

    def _read_numbers(self, end_s: Floats) -> list[range]:
        """The numbers of the reads in each broker's window."""
        last = np.floor(end_s * (SECOND_NS / READ_INTERVAL_NS)).astype(np.int64)
        before = (
            last - round(PERIOD_S / READ_INTERVAL_S) if self._last_read is None else self._last_read
        )
        self._last_read = last
        return [
            range(first + 1, end + 1)
            for first, end in zip(before.tolist(), last.tolist(), strict=True)
        ]

    def _own_gates(self, broker: int, flow: int, now_ns: int) -> tuple[Gate, Gate]:
        return self._gate("topic", broker, now_ns, flow), self._gate(
            "subscription", broker, now_ns, flow
        )

    def _broker_gate(self, broker: int, now_ns: int) -> Gate:
        if broker not in self._brokers:
            self._brokers[broker] = self._gate("broker", broker, now_ns)
        return self._brokers[broker]

    def _gate(self, scope: Scope, broker: int, now_ns: int, flow: int | None = None) -> Gate:
        rate = effective(
            scope,
            RatePolicies() if flow is None else self._rules[flow].policies[scope],
            self._fleet.dispatch[broker],
        )
        return Gate(LIMITERS[self._limiter](rate, now_ns, PublishRate()) if rate.is_set else None)

    def _topic_group(
        self, number: int, row: int, rate: float, rate_in: float, gates: tuple[Gate, Gate]
    ) -> _TopicGroup:
        flow = self._demand.flows[number]
        topics = float(flow.topics[row])
        return _TopicGroup(
            rate,
            flow.course.message_bytes,
            *gates,
            topics,
            self._rules[number].subscriptions,
            PublishRate(rate_in / topics, rate_in / topics * flow.course.message_bytes),
        )

    def _rest(self, requests: Floats) -> _TopicGroup:
        """One group of all topics that no topic or subscription limit holds back."""
        messages, data = (float(one) for one in self._out(requests).sum(axis=1))
        return _TopicGroup(
            messages, data / messages if messages > 0 else 0.0, Gate(None), Gate(None)
        )


def _read_window(broker: Gate, groups: Sequence[_TopicGroup], reads: range) -> None:
    """Runs one window of a broker. In each read, topics request, the broker's limit allows a part,
    and all limits are charged.
    """
    for number in reads:
        now_ns = number * READ_INTERVAL_NS
        requests = [one.request(now_ns) for one in groups]
        messages, data = (
            fsum(requests),
            fsum(request * one.size for request, one in zip(requests, groups, strict=True)),
        )
        part = broker.part(messages, data, now_ns)
        for request, one in zip(requests, groups, strict=True):
            one.send(request * part, now_ns)
        broker.charge(messages * part, data * part, now_ns)


def _rule(
    stated: TopicDispatch, namespace: TopicDispatch, fan_out: float, brokers: Sequence[BrokerRates]
) -> _Rule:
    policies: dict[Scope, RatePolicies] = {
        "topic": RatePolicies(topic=rate_of(stated.topic), namespace=rate_of(namespace.topic)),
        "subscription": RatePolicies(
            topic=rate_of(stated.subscription), namespace=rate_of(namespace.subscription)
        ),
    }
    scopes: tuple[Scope, Scope] = ("topic", "subscription")
    sure = [
        [bound for scope in scopes for bound in _sure(effective(scope, policies[scope], broker))]
        for broker in brokers
    ]
    return _Rule(policies, max(1, ceil(fan_out)), np.array(sure, dtype=np.float64).T)


def _at_most(wanted: int, left: int) -> int:
    """The part of `wanted` that a limit allows; a negative limit is none."""
    return wanted if left < 0 else min(wanted, left)


def _sure(rate: DispatchRate) -> tuple[float, float]:
    """Messages and bytes that a full bucket has at each read. A bucket that is filled less often
    than it is read must be checked.
    """
    if rate.is_set and rate.period_s > 1:
        return 0.0, 0.0
    return float(rate.messages) if rate.messages > 0 else inf, float(
        rate.bytes
    ) if rate.bytes > 0 else inf


def limits_of(scenario: Scenario, fleet: Fleet, demand: Demand) -> Dispatching | None:
    """The dispatch limits of a scenario; None if it states none."""
    limits = Dispatching(scenario, fleet, demand)
    return limits if limits.limits_anything else None

"""The step of a round that drains brokers: chooses the bundles that leave them, and their
destinations, before the strategy judges. What leaves counts as done for the rest of the round.

Lightest disturbance first: fewest sessions and topics, then least throughput, then by name. The
limits of every move apply. The cool-down and `limits.excluded_namespaces` do not: they keep bundles
from being balanced, and a bundle that stays on a broker which is about to stop is interrupted in
any case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from strategies.bundles import is_system_bundle
from strategies.cluster.budget import Budget
from strategies.cluster.intent_state import DRAIN, Intents
from strategies.cluster.memory import Memory
from strategies.cluster.model import LARGEST_TIME, MIB, BrokerLoad, Decision, Skip
from strategies.cluster.move_cost import expected_pause_ms
from strategies.cluster.rule_settings import DrainSettings
from strategies.cluster.state import InFlight, Order
from strategies.figures.estimate import share_of_traffic
from strategies.ordered_sum import ordered_sum
from strategies.placement.answers import BEING_DRAINED
from strategies.placement.destinations import Destinations
from strategies.reason_codes import Meaning, Refusal
from strategies.round.round_input import RoundInput, Rules
from strategies.round.screening import Screened, on_the_way, view_of
from strategies.settings import MODE_RULES

#: Code of bundles that wait until others have arrived.
WAITS = "waits-for-drain"
#: The reason codes of this module.
MEANINGS = (
    Meaning(WAITS),
    Meaning(
        "roll-halted",
        advice="Go on with `rebalancer roll --resume`, or give up with `rebalancer roll --cancel`.",
    ),
)


@dataclass(frozen=True)
class Evacuation:
    """The bundles that leave. `leaving`: bundle → its decision; `throughputs`: bundle → bytes/s;
    `left`: broker → the bundles that it still has; `under_way`: broker → those of them that are on
    their way since earlier rounds; `stays`: broker → the others that stay, with the reason;
    `forbidden`: broker → a namespace that no other broker may serve, and why.
    """

    leaving: Mapping[str, Decision] = field(default_factory=dict)
    throughputs: Mapping[str, float] = field(default_factory=dict)
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    under_way: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stays: Mapping[str, Mapping[str, Refusal]] = field(default_factory=dict)
    forbidden: Mapping[str, tuple[str, Refusal]] = field(default_factory=dict)


@dataclass(frozen=True)
class DrainStep:
    """The result of the step. `draining`: brokers that are no part of the rest of the round;
    `moves`: the bundles that leave them, as moves under way; `memory`: of the placement, None if
    there was nothing to place.
    """

    draining: tuple[str, ...] = ()
    evacuation: Evacuation = Evacuation()
    moves: Mapping[str, InFlight] = field(default_factory=dict)
    memory: Memory | None = None

    @property
    def skips(self) -> tuple[Skip, ...]:
        """The draining brokers, and the bundles that stay on them, by reason."""
        if not self.draining:
            return ()
        text = "an operator drains it: it takes no bundle, and its bundles leave"
        found = [Skip("broker", self.draining, BEING_DRAINED, text)]
        for broker, stays in self.evacuation.stays.items():
            reasons: dict[tuple[str, str], list[str]] = {}
            for bundle, why in stays.items():
                reasons.setdefault((why.code, why.text), []).append(bundle)
            found += [
                Skip("bundle", tuple(bundles), code, f"it {said}", broker)
                for (code, said), bundles in reasons.items()
            ]
        return tuple(found)


def drain_step(
    given: RoundInput, screened: Screened, rules: Rules, budget: Budget, closed: Refusal | None
) -> DrainStep:
    """Decides which bundles leave draining brokers. `closed`: why no bundle may leave now."""
    refusals = _being_drained(given.state.intents)
    draining = tuple(one.broker for one in screened.live if one.broker in refusals)
    if not draining:
        return DrainStep()
    # In every mode: a drain must not command a bundle twice, and must not overload a broker.
    counting = replace(rules, by_mode=MODE_RULES["fixed"])
    view = view_of(given, screened.live, counting)
    destinations = Destinations(
        view,
        given.number,
        rules.destinations,
        policies=view.policies,
        memory=given.memory,
        on_the_way=on_the_way(given, view, rules),
        closed=refusals,
    )
    brokers = {one.broker: one for one in view.brokers if one.broker in refusals}
    stays: dict[str, dict[str, Refusal]] = {name: {} for name in brokers}
    done = _evacuate(brokers, _DrainGate(given, rules.drains, budget, closed, destinations, stays))
    moves = _moves(given, brokers, done, rules.round.command_ttl_ms)
    return DrainStep(draining, done, moves, destinations.memory)


def _moves(
    given: RoundInput, brokers: Mapping[str, BrokerLoad], done: Evacuation, ttl_ms: int
) -> dict[str, InFlight]:
    expires_at_ms = min(given.now_ms + ttl_ms, LARGEST_TIME)
    return {
        bundle: InFlight(
            "",
            one.source,
            one.destination,
            given.now_ms,
            expires_at_ms,
            share_of_traffic(brokers[one.source], bundle),
        )
        for bundle, one in done.leaving.items()
    }


def _being_drained(intents: Intents) -> Mapping[str, Refusal]:
    """Broker → why it takes no bundle."""
    return {
        broker: Refusal("being-drained", f"is being drained ({drain.by}: {drain.reason})")
        for broker, drain in sorted(intents.drains.items())
    }


@dataclass(frozen=True, slots=True, order=True)
class _Candidate:
    """A bundle that has to leave; the lightest disturbance is the smallest."""

    disturbance: int
    throughput: float
    bundle: str
    source: str
    topics: int = 0


def _evacuate(brokers: Mapping[str, BrokerLoad], gate: "_DrainGate") -> Evacuation:
    """Chooses bundles in the order of their disturbance until the pace is reached. `brokers`: the
    draining ones with fresh figures.
    """
    given, drains = gate.given, gate.given.state.intents.drains
    left = {name: _bundles_left(load, given) for name, load in brokers.items()}
    forbidden = {
        name: why
        for name, bundles in left.items()
        if drains[name].total is None
        and (why := _forbidden(bundles, gate.destinations)) is not None
    }
    under_way = {name: _under_way(name, bundles, given) for name, bundles in left.items()}
    going = {name: load for name, load in brokers.items() if name not in forbidden}
    for name, bundles in under_way.items():
        gate.count(_weighed(name, bundles, going[name]) if name in going else [])
    for one in sorted(
        one
        for name, load in going.items()
        for one in _weighed(name, [n for n in left[name] if n not in under_way[name]], load)
    ):
        gate.decide(one)
    return Evacuation(gate.leaving, gate.throughputs, left, under_way, gate.stays, forbidden)


def _bundles_left(load: BrokerLoad, given: RoundInput) -> tuple[str, ...]:
    """The bundles that a broker still has, in its reports or by the collector's note, without those
    that have left since, and those of Pulsar itself.
    """
    note, gone = given.owned.get(load.broker), given.state.intents.drains[load.broker].gone
    owned = [] if note is None else sorted({*note.bundles} - {*gone})
    names = dict.fromkeys([*load.bundles.names, *owned])
    return tuple(name for name in names if not is_system_bundle(name))


def _forbidden(names: Sequence[str], destinations: Destinations) -> tuple[str, Refusal] | None:
    """A namespace of the broker that no other broker may serve, and why; None without one."""
    for namespace in sorted({name.rpartition("/")[0] for name in names}):
        why = destinations.forbidden(namespace)
        if why is not None:
            return namespace, why
    return None


def _under_way(broker: str, names: Sequence[str], given: RoundInput) -> tuple[str, ...]:
    """The bundles that the broker still lists and that have a command from an earlier round. A
    bundle that a broker of the extensible load manager does not report counts until its note shows
    that it has left: that its busiest bundles do not include it shows nothing.
    """
    flights = given.under_way
    return tuple(
        name
        for name in names
        if (flights[name].source == broker if name in flights else _is_ordered(name, given))
    )


def _is_ordered(bundle: str, given: RoundInput) -> bool:
    order = _order_of(bundle, given)
    return order is not None and order.throughput is not None


def _order_of(bundle: str, given: RoundInput) -> Order | None:
    """The command about a bundle that has no outcome yet, and may still be carried out."""
    order = given.state.orders.get(bundle)
    return None if order is None or given.now_ms >= order.expires_at_ms else order


def _weighed(broker: str, names: Sequence[str], load: BrokerLoad) -> list[_Candidate]:
    """The bundles with their weights; those that the broker does not report have none."""
    table = load.bundles
    columns = (table.sessions.tolist(), table.topics.tolist(), table.msg_throughput.tolist())
    known = dict(zip(table.names, zip(*columns, strict=True), strict=True))
    found = []
    for name in names:
        sessions, topics, throughput = known.get(name, (0, 0, 0.0))
        weight = throughput if isfinite(throughput) else inf
        found.append(_Candidate(sessions + topics, weight, name, broker, topics))
    return found


@dataclass
class _DrainGate:
    """The bundles chosen and refused so far. `budget`: of the whole round; `closed`: why no bundle
    may leave now, or None.
    """

    given: RoundInput
    settings: DrainSettings
    budget: Budget
    closed: Refusal | None
    destinations: Destinations
    stays: dict[str, dict[str, Refusal]]
    leaving: dict[str, Decision] = field(default_factory=dict)
    throughputs: dict[str, float] = field(default_factory=dict)
    bundles: int = 0
    throughput: float = 0.0
    pause_ms: float = 0.0

    def count(self, some: Sequence[_Candidate]) -> None:
        """Counts bundles that are on their way."""
        self.bundles += len(some)
        self.throughput += ordered_sum(one.throughput for one in some)

    def decide(self, one: _Candidate) -> None:
        why = self._refused(one)
        if why is None:
            why = self._send(one)
        if why is not None:
            self.stays[one.source][one.bundle] = why

    def _refused(self, one: _Candidate) -> Refusal | None:
        if one.source in self.given.state.intents.moves_nothing:
            return Refusal("roll-halted", "stays: its roll has halted, or restarts the broker")
        return (
            self.closed
            or self._moving(one)
            or self._pace(one)
            or self.budget.refuses([one.throughput])
        )

    def _moving(self, one: _Candidate) -> Refusal | None:
        """Refuses a bundle that is moving or is being split already."""
        given = self.given
        if one.bundle in given.under_way:
            there = given.under_way[one.bundle].source
            return Refusal("already-leaving", f"is on its way from {there} already")
        gained = given.state.gained.get(one.bundle)
        other = self.leaving.get(one.bundle)
        if gained is not None and gained.broker != one.source:
            return Refusal("on-two-brokers", f"is reported by {gained.broker} too: it is moving")
        if other is not None:
            return Refusal("on-two-brokers", f"is reported by {other.source} too: it is moving")
        order = _order_of(one.bundle, given)
        if order is not None and order.throughput is None:
            return Refusal("being-split", "has a command to split already")
        return None

    def _pace(self, one: _Candidate) -> Refusal | None:
        settings = self.settings
        if self.bundles >= settings.bundles_at_a_time:
            limit = f"drains.bundles_at_a_time = {settings.bundles_at_a_time}"
            return Refusal(WAITS, f"waits until others have arrived ({limit})")
        most = settings.mib_at_a_time
        if 0 < most < (self.throughput + one.throughput) / MIB and self.bundles:
            return Refusal(
                WAITS, f"waits until others have arrived (drains.mib_at_a_time = {most:g})"
            )
        longest = settings.pause_ms_per_round
        if 0 < longest < self.pause_ms + self._pause_ms(one) and self.leaving:
            limit = f"drains.pause_ms_per_round = {longest}"
            return Refusal(WAITS, f"waits for a later round, to spare its clients ({limit})")
        return None

    def _pause_ms(self, one: _Candidate) -> float:
        return expected_pause_ms(self.given.state.pauses, one.topics)

    def _send(self, one: _Candidate) -> Refusal | None:
        """Names the destination and counts the move; why there is none, if there is none."""
        drain = self.given.state.intents.drains[one.source]
        text = f"{drain.by} drains {one.source} ({drain.reason})"
        decision = Decision(one.bundle, one.source, None, DRAIN, text, {"drain": drain.id})
        named = self.destinations.evacuate(decision)
        if isinstance(named, Skip):
            return Refusal(named.code, named.text.removeprefix("it "))
        self.leaving[one.bundle] = named
        self.throughputs[one.bundle] = one.throughput if isfinite(one.throughput) else 0.0
        self.count([one])
        self.pause_ms += self._pause_ms(one)
        self.budget.spend([one.throughput])
        return None

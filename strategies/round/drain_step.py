"""Moves bundles in a round before the strategy runs: those of drained brokers, those that a person
asked to move, and the children that splits of earlier rounds named. Selects the bundles and their
destinations. For the strategy these moves count as done.

The bundles whose move disturbs the fewest clients go first: by sessions plus topics, then by
throughput, then by name. All limits of moves apply except the cool-down and
`limits.excluded_namespaces`. These keep bundles from being interrupted for the sake of balance, and
a bundle that stays on a broker which is about to stop is interrupted in any case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from strategies.bundles import is_system_bundle
from strategies.cluster.asked_by_hand import Asked
from strategies.cluster.budget import Budget
from strategies.cluster.cluster_state import InFlight
from strategies.cluster.model import LARGEST_TIME, MIB, BrokerLoad, Decision, Skip
from strategies.cluster.move_cost import expected_pause_ms
from strategies.cluster.remembered_intents import DRAIN, Intents
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage_after_moves import share_of_traffic
from strategies.java.pulsar_versions_and_defaults import MODE_RULES
from strategies.ordered_sum import ordered_sum
from strategies.placement.contract import BEING_DRAINED
from strategies.placement.destinations import Destinations
from strategies.round.busy_bundles import UNKNOWN_BUNDLE, broker_of, order_of, refuse_busy
from strategies.round.participating_brokers import Screening, moves_on_the_way, view_of
from strategies.round.round_input_and_digest import RoundInput, Rules
from strategies.round.yielding import refuse_while_yielding
from strategies.settings import DrainSettings
from strategies.states_and_advice_of_codes import Meaning, Refusal

#: Code of bundles that wait until others have arrived, or for a later round.
WAITS = "waits-for-drain"
#: Code of an asked move whose destination serves the bundle already.
ALREADY_THERE = "already-there"
#: The reason codes of this module.
MEANINGS = (
    Meaning(WAITS),
    Meaning(ALREADY_THERE),
    Meaning(
        "roll-halted",
        advice="Go on with `rebalancer roll --resume`, or give up with `rebalancer roll --cancel`.",
    ),
)


@dataclass(frozen=True)
class Evacuation:
    """The bundles of draining brokers: those that leave in this round, and the others."""

    #: Bundle that leaves → its decision.
    leaving: Mapping[str, Decision] = field(default_factory=dict)
    #: Bundle that leaves → its throughput (bytes/s).
    throughputs: Mapping[str, float] = field(default_factory=dict)
    #: Broker → all bundles that it still has.
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Broker → those of them that have been on their way since earlier rounds.
    under_way: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Broker → those of them that stay → the reason.
    stays: Mapping[str, Mapping[str, Refusal]] = field(default_factory=dict)
    #: Broker → a namespace that no other broker may serve, and the reason.
    forbidden: Mapping[str, tuple[str, Refusal]] = field(default_factory=dict)
    #: Bundle that was asked to move and that stays → the reason.
    refused: Mapping[str, Refusal] = field(default_factory=dict)


@dataclass(frozen=True)
class DrainStep:
    """The result of the step."""

    #: Draining brokers with fresh figures, which have no part in the rest of the round.
    draining: tuple[str, ...] = ()
    evacuation: Evacuation = Evacuation()
    #: The bundles that leave, as moves under way.
    moves: Mapping[str, InFlight] = field(default_factory=dict)
    #: Memory of the placement; None if there was nothing to place.
    memory: Memory | None = None

    @property
    def skips(self) -> tuple[Skip, ...]:
        """Skips of the draining brokers, and of the bundles that stay on them, by reason."""
        if not self.draining:
            return ()
        text = "an operator drains it: it takes no bundle, and its bundles leave"
        skips = [Skip("broker", self.draining, BEING_DRAINED, text)]
        for broker, stays in self.evacuation.stays.items():
            reasons: dict[tuple[str, str], list[str]] = {}
            for bundle, why in stays.items():
                reasons.setdefault((why.code, why.text), []).append(bundle)
            skips += [
                Skip("bundle", tuple(bundles), code, f"it {sentence}", broker)
                for (code, sentence), bundles in reasons.items()
            ]
        return tuple(skips)


def drain_step(
    round_input: RoundInput,
    screening: Screening,
    rules: Rules,
    budget: Budget,
    closed: Refusal | None,
) -> DrainStep:
    """Decides which bundles leave draining brokers. `closed`: refuses all bundles, None if they may
    leave. Spends the budget.
    """
    refusals = _drain_refusals(round_input.state.intents)
    draining = tuple(broker.broker for broker in screening.live if broker.broker in refusals)
    if not draining and not _due_moves(round_input):
        return DrainStep()
    # Moves under way count in every mode, so that a drain commands no bundle twice and overloads no
    # broker.
    counting = replace(rules, by_mode=MODE_RULES["fixed"])
    view = view_of(round_input, screening.live, counting)
    destinations = Destinations(
        view,
        round_input.number,
        rules.destinations,
        policies=view.policies,
        memory=round_input.memory,
        on_the_way=moves_on_the_way(round_input, view, rules),
        closed=refusals,
    )
    everywhere = {broker.broker: broker for broker in view.brokers}
    brokers = {name: load for name, load in everywhere.items() if name in refusals}
    stays: dict[str, dict[str, Refusal]] = {name: {} for name in brokers}
    gate = _DrainGate(round_input, rules.drains, budget, closed, destinations, stays)
    refused = _move_asked(everywhere, gate)
    evacuation = replace(_evacuate(brokers, gate), refused=refused)
    moves = _flights_of(round_input, everywhere, evacuation, rules.round.command_ttl_ms)
    return DrainStep(draining, evacuation, moves, destinations.memory)


def _flights_of(
    round_input: RoundInput, brokers: Mapping[str, BrokerLoad], evacuation: Evacuation, ttl_ms: int
) -> dict[str, InFlight]:
    expires_at_ms = min(round_input.now_ms + ttl_ms, LARGEST_TIME)
    return {
        bundle: InFlight(
            "",
            decision.source,
            decision.destination,
            round_input.now_ms,
            expires_at_ms,
            share_of_traffic(brokers[decision.source], bundle),
        )
        for bundle, decision in evacuation.leaving.items()
    }


def _drain_refusals(intents: Intents) -> Mapping[str, Refusal]:
    """Returns the refusal of each draining broker as a destination."""
    return {
        broker: Refusal("being-drained", f"is being drained ({drain.by}: {drain.reason})")
        for broker, drain in sorted(intents.drains.items())
    }


@dataclass(frozen=True, slots=True, order=True)
class _Candidate:
    """A bundle that has to leave. The order of the fields is the order in which bundles leave."""

    disturbance: int
    throughput: float
    bundle: str
    source: str
    topics: int = 0


def _evacuate(brokers: Mapping[str, BrokerLoad], gate: "_DrainGate") -> Evacuation:
    """Selects bundles in the order of their disturbance until the pace is reached. `brokers`: the
    draining ones with fresh figures.
    """
    round_input, drains = gate.round_input, gate.round_input.state.intents.drains
    remaining = {name: _bundles_left(load, round_input) for name, load in brokers.items()}
    forbidden = {
        name: why
        for name, bundles in remaining.items()
        if drains[name].total is None
        and (why := _find_forbidden(bundles, gate.destinations)) is not None
    }
    under_way = {
        name: _bundles_under_way(name, bundles, round_input) for name, bundles in remaining.items()
    }
    going = {name: load for name, load in brokers.items() if name not in forbidden}
    for name, bundles in under_way.items():
        gate.count(_weigh(name, bundles, going[name]) if name in going else [])
    for candidate in sorted(
        candidate
        for name, load in going.items()
        for candidate in _weigh(
            name, [n for n in remaining[name] if n not in under_way[name]], load
        )
    ):
        gate.decide(candidate)
    return Evacuation(gate.leaving, gate.throughputs, remaining, under_way, gate.stays, forbidden)


def _due_moves(round_input: RoundInput) -> list[Asked]:
    """Returns the moves that were asked for and that no round has commanded yet: those of persons,
    then those of rounds, in the order of asking.
    """
    asked = round_input.state.intents.asked.values()
    due = (one for one in asked if one.action == "move" and one.waits)
    return sorted(due, key=lambda one: (not one.is_by_hand, one.asked_ms, one.id))


def _move_asked(brokers: Mapping[str, BrokerLoad], gate: "_DrainGate") -> dict[str, Refusal]:
    """Moves the bundles that were asked for. Returns those that stay, with the reasons."""
    refused, flights = dict[str, Refusal](), gate.round_input.under_way
    asked = gate.round_input.state.intents.asked.values()
    for bundle in (one.bundle for one in asked if not one.waits):
        if bundle in flights and (source := flights[bundle].source) in brokers:
            gate.count(_weigh(source, [bundle], brokers[source]))
    for move in _due_moves(gate.round_input):
        owner = broker_of(move, brokers)
        why: Refusal | None = UNKNOWN_BUNDLE
        if owner is not None and owner == move.to:
            why = Refusal(ALREADY_THERE, f"is on {owner} already")
        elif owner is not None:
            text = f"{move.by} asked for it ({move.reason})"
            decision = Decision(move.bundle, owner, move.to, move.code, text, {"intent": move.id})
            (candidate,) = _weigh(owner, [move.bundle], brokers[owner])
            why = gate.refuse_child(decision, move) or gate.refusal_of(candidate)
            why = why or gate.send(candidate, decision)
        if why is not None:
            refused[move.bundle] = why
    return refused


def _bundles_left(load: BrokerLoad, round_input: RoundInput) -> tuple[str, ...]:
    """Returns the bundles that a broker still has by its reports or by the collector's note,
    without those that have left since the note, and without Pulsar's own.
    """
    note, drains = round_input.owned.get(load.broker), round_input.state.intents.drains
    owned = [] if note is None else sorted({*note.bundles} - {*drains[load.broker].gone})
    names = dict.fromkeys([*load.bundles.names, *owned])
    return tuple(name for name in names if not is_system_bundle(name))


def _find_forbidden(names: Sequence[str], destinations: Destinations) -> tuple[str, Refusal] | None:
    """Returns a namespace of the bundles that no other broker may serve, and the refusal; None
    without one.
    """
    for namespace in sorted({name.rpartition("/")[0] for name in names}):
        why = destinations.forbidden(namespace)
        if why is not None:
            return namespace, why
    return None


def _bundles_under_way(
    broker: str, names: Sequence[str], round_input: RoundInput
) -> tuple[str, ...]:
    """Returns the bundles that the broker still has and that have a command from an earlier round.
    A bundle that only the collector's note lists counts until a note shows that it has left:
    reports of the extensible load manager list the busiest bundles only.
    """
    flights = round_input.under_way
    return tuple(
        name
        for name in names
        if (flights[name].source == broker if name in flights else _is_ordered(name, round_input))
    )


def _is_ordered(bundle: str, round_input: RoundInput) -> bool:
    order = order_of(bundle, round_input)
    return order is not None and order.throughput is not None


def _weigh(broker: str, names: Sequence[str], load: BrokerLoad) -> list[_Candidate]:
    """Returns the bundles with their weights; those that the broker does not report weigh 0."""
    table = load.bundles
    columns = (table.sessions.tolist(), table.topics.tolist(), table.msg_throughput.tolist())
    weights = dict(zip(table.names, zip(*columns, strict=True), strict=True))
    candidates = []
    for name in names:
        sessions, topics, throughput = weights.get(name, (0, 0, 0.0))
        weight = throughput if isfinite(throughput) else inf
        candidates.append(_Candidate(sessions + topics, weight, name, broker, topics))
    return candidates


@dataclass
class _DrainGate:
    """The bundles selected and refused so far. Results as in `Evacuation`."""

    round_input: RoundInput
    settings: DrainSettings
    #: Of the whole round.
    budget: Budget
    #: Refuses all bundles; None if they may leave.
    closed: Refusal | None
    destinations: Destinations
    stays: dict[str, dict[str, Refusal]]
    leaving: dict[str, Decision] = field(default_factory=dict)
    throughputs: dict[str, float] = field(default_factory=dict)
    #: Number and throughput (bytes/s) of the bundles on their way, those of this round included.
    bundles: int = 0
    throughput: float = 0.0
    #: Sum of the expected pauses of the bundles that leave in this round.
    pause_ms: float = 0.0

    def count(self, candidates: Sequence[_Candidate]) -> None:
        """Counts bundles that are on their way."""
        self.bundles += len(candidates)
        self.throughput += ordered_sum(candidate.throughput for candidate in candidates)

    def decide(self, candidate: _Candidate) -> None:
        """Sends a bundle away, or notes why it stays."""
        drain = self.round_input.state.intents.drains[candidate.source]
        text = f"{drain.by} drains {candidate.source} ({drain.reason})"
        decision = Decision(
            candidate.bundle, candidate.source, None, DRAIN, text, {"drain": drain.id}
        )
        why = self.refusal_of(candidate) or self.send(candidate, decision)
        if why is not None:
            self.stays[candidate.source][candidate.bundle] = why

    def refusal_of(self, candidate: _Candidate) -> Refusal | None:
        """Returns why the bundle may not leave now; None if it may."""
        if candidate.source in self.round_input.state.intents.moves_nothing:
            return Refusal("roll-halted", "stays: its roll has halted, or restarts the broker")
        return (
            self.closed
            or refuse_busy(candidate.bundle, candidate.source, self.round_input, self.leaving)
            or self._refuse_by_pace(candidate)
            or self.budget.refuses([candidate.throughput])
        )

    def refuse_child(self, decision: Decision, move: Asked) -> Refusal | None:
        """Returns why a child that a round wants to move stays: other than a person's, the move has
        to relieve the broker that the round named.
        """
        if move.is_by_hand or move.to is None:
            return None
        if decision.source != move.source:
            return Refusal("moved-by-others", f"has left {move.source} already")
        why = self.destinations.refusal(decision, move.to)
        if why is not None:
            return Refusal(why.code, f"was meant for {move.to}, which {why.text}")
        if not self.destinations.relieves(move.bundle, move.source, move.to):
            text = f"would make {move.to} at least as full as {move.source} is"
            return Refusal("no-relief", text)
        return refuse_while_yielding(self.round_input.state.rivals)

    def _refuse_by_pace(self, candidate: _Candidate) -> Refusal | None:
        settings = self.settings
        if self.bundles >= settings.bundles_at_a_time:
            limit = f"drains.bundles_at_a_time = {settings.bundles_at_a_time}"
            return Refusal(WAITS, f"waits until others have arrived ({limit})")
        most = settings.mib_at_a_time
        if 0 < most < (self.throughput + candidate.throughput) / MIB and self.bundles:
            return Refusal(
                WAITS, f"waits until others have arrived (drains.mib_at_a_time = {most:g})"
            )
        longest = settings.pause_ms_per_round
        if 0 < longest < self.pause_ms + self._pause_ms(candidate) and self.leaving:
            limit = f"drains.pause_ms_per_round = {longest}"
            return Refusal(WAITS, f"waits for a later round, to spare its clients ({limit})")
        return None

    def _pause_ms(self, candidate: _Candidate) -> float:
        return expected_pause_ms(self.round_input.state.pauses, candidate.topics)

    def send(self, candidate: _Candidate, decision: Decision) -> Refusal | None:
        """Names the destination and counts the move. Returns the refusal if there is none."""
        answer = self.destinations.evacuate(decision)
        if isinstance(answer, Skip):
            return Refusal(answer.code, answer.text.removeprefix("it "))
        self.leaving[candidate.bundle] = answer
        self.throughputs[candidate.bundle] = (
            candidate.throughput if isfinite(candidate.throughput) else 0.0
        )
        self.count([candidate])
        self.pause_ms += self._pause_ms(candidate)
        self.budget.spend([candidate.throughput])
        return None

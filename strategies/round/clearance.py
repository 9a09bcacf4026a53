"""Decides which of the bundles that shedding selected leave, and for which broker: by limits first,
then by policies, filters and placement.

A refused bundle becomes a skip. In fixed mode a broker that was due but gives no bundle keeps its
hit counts, because it is still due.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from strategies.cluster.budget import Budget
from strategies.cluster.cluster_state import Gained
from strategies.cluster.model import BrokerLoad, Decision, Skip
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.placement.contract import skip
from strategies.placement.destinations import Destinations
from strategies.shedding.contract import Shedding
from strategies.states_and_advice_of_codes import CHECK_FILTERS, NEXT_ROUNDS, Meaning, Refusal

#: The reason codes of this module.
MEANINGS = (
    Meaning("on-two-brokers", "waiting", 680, NEXT_ROUNDS),
    Meaning("counts-on", "not-allowed", 1130, CHECK_FILTERS),
    Meaning("exchange", "not-allowed", 1140, CHECK_FILTERS),
)

_ALONE = Refusal("exchange", "makes no sense alone, and what it makes room for may not move")
#: Codes of refusals that end by themselves: a later round may make the move.
LATER = frozenset({"budget", "counts-on", "outside-window", "rounds-yield"})


@dataclass(frozen=True)
class LeavingRules:
    """Rules by which a round refuses bundles."""

    #: A broker that was due and gives no bundle is still due.
    keeps_due: bool
    #: Of the whole round; cleared bundles spend it.
    budget: Budget
    #: True for a bundle whose namespace the operator excludes.
    is_excluded: Callable[[str], bool]
    #: Bundle → the other broker that reports it.
    gained: Mapping[str, Gained]
    #: Refusal of all bundles; None if they may leave.
    closed: Refusal | None = None
    #: The destinations that shedding names presume all moves before.
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Leaving:
    """The result of clearance."""

    #: Bundle that leaves → its decision, with a destination if the placement names one.
    kept: Mapping[str, Decision]
    #: Skips of selected bundles that stay.
    skips: tuple[Skip, ...]
    #: The new memory.
    memory: Memory
    rules: LeavingRules
    #: Bundle that leaves → its throughput (bytes/s).
    throughputs: Mapping[str, float]


def decide(
    brokers: Mapping[str, BrokerLoad],
    shedding: Shedding,
    destinations: Destinations,
    rules: LeavingRules,
) -> Leaving:
    """Clears or refuses the decisions of shedding in their order; the bundles of one exchange leave
    together or not at all. Changes the memory of `destinations`.
    """
    before = destinations.memory
    destinations.memory = shedding.memory
    gate = _Gate(brokers, destinations, rules)
    for _, group in groupby(
        enumerate(shedding.decisions), key=lambda item: item[1].exchange or item[0]
    ):
        gate.decide([decision for _, decision in group])
    memory = shedding.hold(destinations.memory, gate.held)
    if rules.keeps_due:
        memory = _keep_hits_of_due(before, memory, shedding.decisions, gate.kept)
    return Leaving(gate.kept, tuple(gate.skips), memory, rules, gate.throughputs)


@dataclass
class _Gate:
    """The decisions cleared and refused so far."""

    brokers: Mapping[str, BrokerLoad]
    destinations: Destinations
    rules: LeavingRules
    kept: dict[str, Decision] = field(default_factory=dict)
    skips: list[Skip] = field(default_factory=list)
    throughputs: dict[str, float] = field(default_factory=dict)
    #: Bundles that a later round may move.
    held: set[str] = field(default_factory=set)
    #: Broker that a refused bundle was to leave → this bundle: the broker stays fuller than
    #: planned.
    fuller: dict[str, str] = field(default_factory=dict)
    #: Broker that a refused bundle was to arrive at → this bundle.
    emptier: dict[str, str] = field(default_factory=dict)

    def decide(self, together: Sequence[Decision]) -> None:
        """Clears or refuses one decision, or all of one exchange."""
        throughputs = [self._throughput(decision) for decision in together]
        refused = {
            decision.bundle: why
            for decision in together
            if (why := self._refusal_of(decision, together)) is not None
        }
        over = None if refused else self.rules.budget.refuses(throughputs)
        if refused or over is not None:
            for decision in together:
                self._note_refused(decision)
                self.skips.append(skip(decision, refused.get(decision.bundle) or over or _ALONE))
            if all(why.code in LATER for why in (*refused.values(), over) if why is not None):
                self.held |= {decision.bundle for decision in together}
            return
        decisions = self._name_destinations(together)
        self.kept |= {decision.bundle: decision for decision in decisions}
        if decisions:
            self.throughputs |= {
                decision.bundle: throughput
                for decision, throughput in zip(together, throughputs, strict=True)
            }
            self.rules.budget.spend(throughputs)

    def _name_destinations(self, together: Sequence[Decision]) -> list[Decision]:
        """Returns the decisions with their destinations. Of an exchange, all or none: its first
        move may use the room that the second one needs.
        """
        before = self.destinations.mark() if len(together) > 1 else None
        answers = [self.destinations.name(decision, together) for decision in together]
        decisions = [answer for answer in answers if isinstance(answer, Decision)]
        if len(decisions) == len(answers) and (
            before is None or _matches_exchange(together, decisions)
        ):
            return decisions
        if before is not None:
            self.destinations.back_to(before)
        for decision, answer in zip(together, answers, strict=True):
            self._note_refused(decision)
            self.skips.append(answer if isinstance(answer, Skip) else skip(decision, _ALONE))
        return []

    def _refusal_of(self, decision: Decision, together: Sequence[Decision]) -> Refusal | None:
        if self.rules.closed is not None:
            return self.rules.closed
        if self.rules.in_order and decision.destination is not None:
            missing = self.fuller.get(decision.destination) or self.emptier.get(decision.source)
            if missing is not None:
                return Refusal("counts-on", f"counts on the move of {missing}, which stays")
        if self.rules.is_excluded(decision.bundle):
            return Refusal(
                "excluded-namespace", "belongs to a namespace that limits.excluded_namespaces names"
            )
        elsewhere = self._other_broker(decision)
        if elsewhere is not None:
            return Refusal(
                "on-two-brokers", f"is reported by {elsewhere} too: it is moving already"
            )
        if len(together) == 1 or decision.destination is None:
            return None
        return self.destinations.refusal(decision, decision.destination, together)

    def _other_broker(self, decision: Decision) -> str | None:
        """Returns the other broker of a bundle that two brokers report; None without one. A round
        must not command one bundle twice: both commands would have the same id.
        """
        if decision.bundle in self.kept:
            return self.kept[decision.bundle].source
        gained = self.rules.gained.get(decision.bundle)
        return None if gained is None or gained.broker == decision.source else gained.broker

    def _throughput(self, decision: Decision) -> float:
        """Returns the short-term average of the bundle's throughput (bytes/s)."""
        return self.brokers[decision.source].bundles.throughput_of(decision.bundle)

    def _note_refused(self, decision: Decision) -> None:
        self.fuller.setdefault(decision.source, decision.bundle)
        if decision.destination is not None:
            self.emptier.setdefault(decision.destination, decision.bundle)


def _matches_exchange(together: Sequence[Decision], decisions: Sequence[Decision]) -> bool:
    """True if the destinations are those of the exchange; with a third broker it is no exchange."""
    return all(
        wanted.destination in (None, decision.destination)
        for wanted, decision in zip(together, decisions, strict=True)
    )


def _keep_hits_of_due(
    before: Memory, after: Memory, decisions: Sequence[Decision], leaving: Mapping[str, Decision]
) -> Memory:
    """Returns the memory in which brokers that were due and give no bundle stay due."""
    gave = {decision.source for decision in leaving.values()}
    waiting = [decision for decision in decisions if decision.source not in gave]
    if not waiting:
        return after
    brokers = dict(after.brokers)
    involved = {
        name
        for decision in waiting
        for name in (decision.source, decision.destination)
        if name is not None
    }
    for name in sorted(involved - gave - {decision.destination for decision in leaving.values()}):
        old = before.brokers.get(name, NO_MEMORY)
        due = replace(
            brokers.get(name, NO_MEMORY),
            hit_high=old.hit_high,
            hit_low=old.hit_low,
            gave_at_ms=old.gave_at_ms,
        )
        brokers.pop(name, None)
        if due != NO_MEMORY:
            brokers[name] = due
    cluster = (
        after.cluster
        if leaving
        else replace(after.cluster, hits=max(after.cluster.hits, before.cluster.hits))
    )
    return Memory(brokers, cluster)

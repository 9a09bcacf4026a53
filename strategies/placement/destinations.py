"""Finds a destination for every leaving bundle: policies first, then filters, then the placement.
Each move counts for the next ones.

Source of the rule: step 4 of the shedding round and `selectBroker` of `ModularLoadManagerImpl`,
`TransferShedder.isTransferable` of the extensible load manager, Pulsar 4.2.4. In parity mode a move
counts once a report shows it, as in Java; in fixed mode all moves count, and the destination of a
shedding rule is kept if that broker may take the bundle.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from strategies.cluster.model import ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.filters.broker_filters import EvenDistribution
from strategies.filters.filter_input_and_result import (
    Allowed,
    FilteredBundle,
    FilterFacts,
    remaining,
)
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView
from strategies.placement.contract import (
    NOT_THERE,
    UNKNOWN,
    Averages,
    Candidate,
    DestinationRules,
    OpensRounds,
    Placement,
    Placer,
    Request,
    answer,
    as_decided,
    exchanged_with,
    nowhere_at_all,
    seed_of,
    skip,
)
from strategies.placement.expected_load_ledger import CountedMove, Ledger
from strategies.settings import Mode
from strategies.states_and_advice_of_codes import (
    ADD_BROKERS,
    SPLIT_BUNDLES,
    Meaning,
    Refusal,
    Refusals,
)

#: The reason codes of this module.
MEANINGS = (
    Meaning("no-relief", "cannot-help", 920, SPLIT_BUNDLES),
    Meaning("would-overload", "cannot-help", 930, ADD_BROKERS),
    Meaning(
        "placed-on-source",
        "cannot-help",
        960,
        "Set shedding.mode = fixed, which looks for another broker.",
    ),
)


class Destinations:
    """The destinations of one round, named one after the other. `memory`: the memory of the
    placement.
    """

    def __init__(
        self,
        view: ClusterView,
        round_: int,
        rules: DestinationRules,
        *,
        policies: PoliciesView,
        memory: Memory,
        on_the_way: Sequence[CountedMove] = (),
        closed: Refusals = MappingProxyType({}),
        opened: bool = False,
    ) -> None:
        """`on_the_way`: moves of earlier rounds that no report shows yet; they count in fixed mode,
        and where brokers are closed. `closed`: brokers that take no bundle at all; `opened`: the
        placement's memory has begun this round already.
        """
        self._view, self._round, self._rules, self._policies = view, round_, rules, policies
        self._closed = closed
        self._brokers = remaining([broker.broker for broker in view.brokers], closed)
        self._settling = frozenset(broker.broker for broker in view.brokers if broker.settling)
        self._ledger = Ledger(view.brokers, rules.weights)
        self._form = _FORMS[rules.filters.mode, rules.filters.settings.load_manager == "extensible"]
        for move in on_the_way if self._form.counts_moves or closed else ():
            self._ledger.count(move)
        self.memory = (
            rules.placer.open_round(self._ledger.candidates(self._brokers), memory)
            if isinstance(rules.placer, OpensRounds) and not opened
            else memory
        )

    def name(self, decision: Decision, together: Sequence[Decision] = ()) -> Decision | Skip:
        """The decision with its destination, or the skip of a bundle that stays. Never raises on a
        valid view. `together`: the decisions of its exchange.
        """
        averages = self._ledger.averages(decision.bundle, decision.source)
        exchanged = exchanged_with(decision, together)
        subject = self._subject(decision.bundle, decision.source, exchanged)
        fleet = self._fleet()
        stays = (
            self._rules.filters.must_stay(subject, self._brokers, fleet)
            if self._form.asks_first
            else None
        )
        if stays is not None:
            return skip(decision, stays)
        if (
            self._form.counts_moves
            and decision.destination is not None
            and decision.destination in self._brokers
            and self._rules.filters.taker(subject, self._brokers, fleet)(decision.destination)
        ):
            self._count(decision, averages)
            return decision
        named = self._form.place(self, decision, self._allowed(subject), averages)
        if isinstance(named, Decision):
            self._count(named, averages)
        return named

    def evacuate(self, decision: Decision) -> Decision | Skip:
        """The decision with its destination, for a bundle that leaves whatever its broker's load
        is; or the skip of one that stays. Never raises on a valid view.

        The filters judge the bundle as one without an owner, as after the broker's shutdown. Only
        other brokers that have room take it, of these the decision's own destination, if it has
        one. The move counts for the next ones.
        """
        averages = self._ledger.averages(decision.bundle, decision.source)
        subject = self._subject(decision.bundle, decision.source)
        allowed = self._allowed(replace(subject, source=None))
        others = {name: why for name, why in allowed.refused.items() if name != decision.source}
        left = tuple(broker for broker in allowed.brokers if broker != decision.source)
        allowed = replace(allowed, brokers=left, refused=others)
        if decision.destination is not None:
            kept = as_decided(decision, allowed)
            if isinstance(kept, Skip):
                return kept
            allowed = replace(allowed, brokers=(decision.destination,), refused={})
        if not allowed.brokers:
            return skip(decision, nowhere_at_all(allowed))
        named: Decision | Skip = decision
        if (placer := self._rules.drain_placer) is not None:
            named = self._place_outside(decision, allowed, averages, placer)
        if isinstance(named, Decision):
            named = decision if decision.destination else named  # of one broker, no choice
            self._ledger.count(
                CountedMove(decision.bundle, decision.source, named.destination, averages)
            )
        return named

    def _place_outside(
        self, decision: Decision, allowed: Allowed, averages: Averages, placer: Placer
    ) -> Decision | Skip:
        """Spreading bundles by number matters less than room for them."""
        uneven = (name for name, why in allowed.refused.items() if why.code == "uneven")
        for brokers in (allowed.brokers, tuple(uneven)):
            fit = self._with_room(decision, brokers)
            if fit:
                return answer(decision, self._place(decision, fit, averages, placer), allowed)
        limit = f"placement.overloaded_percent = {self._rules.settings.overloaded_percent:g}"
        who = decision.destination or "every broker that may take it"
        return skip(decision, Refusal("would-overload", f"would put {who} above {limit} %"))

    def _with_room(self, decision: Decision, brokers: Sequence[str]) -> tuple[str, ...]:
        """The brokers that would not be too full with the bundle; one without load does no harm."""
        limit = self._rules.settings.overloaded_percent / 100.0
        after = self._ledger.usages_with(brokers, decision.bundle, decision.source)
        before = self._ledger.candidates(brokers)
        return tuple(
            broker
            for broker, usage in after.items()
            if usage <= limit or usage <= before[broker].expected
        )

    def forbidden(self, namespace: str) -> Refusal | None:
        """Why isolation policies let no broker of the round take bundles of a namespace; None where
        one may.
        """
        policy = isolated(self._policies, namespace, self._brokers)
        if len(policy) < len(self._brokers) or not policy:
            return None
        return next(iter(policy.values()))

    def _allowed(self, subject: FilteredBundle) -> Allowed:
        allowed = self._rules.filters.allowed(subject, self._brokers, self._fleet())
        if not self._closed:
            return allowed
        return replace(allowed, refused={**self._closed, **allowed.refused})

    def mark(self) -> tuple[int, Memory]:
        """The current state, for `back_to`."""
        return len(self._ledger.moves), self.memory

    def back_to(self, mark: tuple[int, Memory]) -> None:
        """Restores the state of `mark`: drops all destinations named since."""
        self._ledger, self.memory = self._ledger.of_first(mark[0]), mark[1]

    def refusal(
        self, decision: Decision, destination: str, together: Sequence[Decision] = ()
    ) -> Refusal | None:
        """Why this broker must not take the bundle; None when it may. `together`: the decisions of
        its exchange.
        """
        exchanged = exchanged_with(decision, together)
        allowed = self._allowed(self._subject(decision.bundle, decision.source, exchanged))
        if destination in allowed.brokers:
            return None
        return allowed.refused.get(destination, NOT_THERE)

    def takers(self, bundle: str, source: str) -> tuple[str, ...]:
        """The brokers that may take the bundle."""
        subject = self._subject(bundle, source)
        return self._rules.filters.allowed(subject, self._brokers, self._fleet()).brokers

    @property
    def even(self) -> EvenDistribution | None:
        """The rule that spreads bundles by number, if moves count for the next ones; else None."""
        filters = self._rules.filters
        if not (self._form.counts_moves and filters.distributes_evenly):
            return None
        return EvenDistribution(self._takers_if_even, self._ledger.bundles_of)

    def _takers_if_even(self, bundle: str, source: str) -> frozenset[str]:
        subject = self._subject(bundle, source, self._brokers)
        return frozenset(self._rules.filters.allowed(subject, self._brokers, self._fleet()).brokers)

    def relieves(self, bundle: str, source: str, broker: str) -> bool:
        """True if the broker would be less full with the bundle than the source is now."""
        before = self._ledger.candidate(source)
        return (
            before is not None and self._ledger.usage_with(broker, bundle, source) < before.expected
        )

    def may_be_relieved(self, bundle: str, source: str) -> bool:
        """Whether a broker that may take the bundle relieves the source, the emptiest first."""
        subject = self._subject(bundle, source)
        takes = self._rules.filters.taker(subject, self._brokers, self._fleet())
        return any(
            broker != source and self.relieves(bundle, source, broker) and takes(broker)
            for broker in self._emptiest_first
        )

    @cached_property
    def _emptiest_first(self) -> list[str]:
        """Brokers by expected usage, computed after the round has named all its destinations."""
        return self._ledger.emptiest_first()

    def _subject(
        self, bundle: str, source: str, exchanged_with: Collection[str] = ()
    ) -> FilteredBundle:
        """The bundle as input of the filters; one that no report lists may still have a topic count
        in the policies.
        """
        averages = self._ledger.averages(bundle, source)
        topics = self._policies.topics.get(bundle, 0) if averages is UNKNOWN else averages.topics
        return FilteredBundle(bundle, source, topics, exchanged_with=exchanged_with)

    def _extensible(self, decision: Decision, allowed: Allowed, _: Averages) -> Decision | Skip:
        return as_decided(decision, allowed)

    def _modular(self, decision: Decision, allowed: Allowed, averages: Averages) -> Decision | Skip:
        """Java's lookup of a destination: if the first choice is overloaded, it tries all brokers
        that the policies allow.
        """
        if self._rules.placer is None:
            return as_decided(decision, allowed)
        placement = self._place(decision, allowed.brokers, averages)
        if placement.chosen is not None and self._is_overloaded(placement.chosen):
            willing = tuple(dict.fromkeys([*allowed.brokers, *allowed.by_policy]))
            second = self._place(decision, willing, averages)
            placement = second if second.chosen is not None else placement
        if placement.chosen == decision.source:
            return skip(
                decision,
                Refusal(
                    "placed-on-source",
                    f"would be placed where it is: {decision.source} {placement.text}",
                ),
            )
        return answer(decision, placement, allowed)

    def _fixed(self, decision: Decision, allowed: Allowed, averages: Averages) -> Decision | Skip:
        """Places a bundle without a destination, or whose destination must not take it; leaves out
        brokers that it would overload.
        """
        if self._rules.placer is None or (
            decision.destination is not None
            and self._rules.filters.settings.load_manager == "extensible"
        ):
            return as_decided(decision, allowed)
        placement = self._place(decision, allowed.brokers, averages)
        if placement.chosen is not None and self._would_not_help(decision, placement.chosen):
            rest = tuple(
                broker for broker in allowed.brokers if not self._would_not_help(decision, broker)
            )
            if not rest:
                return skip(decision, self._no_relief(decision))
            placement = self._place(decision, rest, averages)
        return answer(decision, placement, allowed)

    def _no_relief(self, decision: Decision) -> Refusal:
        if self._rules.balances_usage:
            return Refusal(
                "no-relief",
                "would make every broker that may take it at least as full as "
                f"{decision.source} is",
            )
        limit = f"placement.overloaded_percent = {self._rules.settings.overloaded_percent:g}"
        return Refusal(
            "would-overload",
            f"would put every broker that may take it above {limit} %, and above {decision.source}",
        )

    def _place(
        self,
        decision: Decision,
        brokers: Sequence[str],
        averages: Averages,
        placer: Placer | None = None,
    ) -> Placement:
        candidates: Mapping[str, Candidate | None] = {
            broker: self._ledger.candidate(broker) for broker in brokers
        }
        seed = seed_of(self._view.cluster, self._round, decision.bundle)
        placer = placer or self._rules.placer
        assert placer is not None
        placement = placer.place(Request(decision.bundle, averages, candidates, seed), self.memory)
        self.memory = placement.memory
        return placement

    def _is_overloaded(self, broker: str) -> bool:
        candidate = self._ledger.candidate(broker)
        return (
            candidate is not None
            and candidate.usage > self._rules.settings.overloaded_percent / 100.0
        )

    def _would_not_help(self, decision: Decision, broker: str) -> bool:
        """Whether the broker would become at least as full as the source. Rules that balance
        traffic allow it up to the overload limit.
        """
        after = self._ledger.usage_with(broker, decision.bundle, decision.source)
        harmless = (
            not self._rules.balances_usage
            and after <= self._rules.settings.overloaded_percent / 100.0
        )
        return not harmless and not self.relieves(decision.bundle, decision.source, broker)

    def _count(self, decision: Decision, averages: Averages) -> None:
        if self._form.counts_moves:
            self._ledger.count(
                CountedMove(decision.bundle, decision.source, decision.destination, averages)
            )

    def _fleet(self) -> FilterFacts:
        ledger = self._ledger
        return FilterFacts(
            self._policies,
            ledger.served,
            ledger.topics,
            ledger.bundles_of,
            ledger.arriving_topics,
            self._settling,
        )


@dataclass(frozen=True, slots=True)
class _DestinationForm:
    """What depends on the mode and the load manager.

    `counts_moves`: a move counts before a report shows it, and a destination that shedding named is
    kept if that broker may take the bundle; `asks_first`: the load manager checks that a bundle may
    leave before it looks for a destination.
    """

    place: Callable[[Destinations, Decision, Allowed, Averages], Decision | Skip]
    counts_moves: bool
    asks_first: bool


_FIXED = _DestinationForm(Destinations._fixed, counts_moves=True, asks_first=True)
#: Mode, and whether the load manager is the extensible one → form.
_FORMS: Mapping[tuple[Mode, bool], _DestinationForm] = {
    ("fixed", False): _FIXED,
    ("fixed", True): _FIXED,
    ("parity", False): _DestinationForm(Destinations._modular, counts_moves=False, asks_first=True),
    ("parity", True): _DestinationForm(
        Destinations._extensible, counts_moves=False, asks_first=False
    ),
}

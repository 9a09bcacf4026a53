"""The interface and the description of a placement, the rules that name destinations, and what
their search answers: the decision with its destination, or why there is none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum, inf
from typing import Any, Protocol, runtime_checkable

import numpy as np

from strategies.bundles import RATE_IN, RATE_OUT, namespace_of
from strategies.cluster.model import BrokerLoad, Decision, Evidence, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.filters.filter_input_and_result import Allowed
from strategies.filters.filter_order_and_settings import Filters
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease
from strategies.ordered_sum import ordered_sum
from strategies.settings import DestinationSettings, Mode, Weights
from strategies.states_and_advice_of_codes import CHECK_COLLECTOR, CHECK_FILTERS, Meaning, Refusal

#: Columns as in BundleLoads.
Row = tuple[float, ...]
#: Code of brokers that are being drained, as destinations and in a round's skips.
BEING_DRAINED = "being-drained"
NOT_THERE = Refusal("not-there", "is not among the brokers of this round")
#: The reason codes of this module.
MEANINGS = (
    Meaning("unknown-broker", "cannot-help", 970, CHECK_COLLECTOR),
    Meaning(NOT_THERE.code, "not-allowed", 490, CHECK_FILTERS),
    Meaning("no-destination", "not-allowed", 500, CHECK_FILTERS),
    Meaning(BEING_DRAINED),
)


@dataclass(frozen=True, slots=True)
class Averages:
    """A bundle's averages, over at most 10 and 1000 samples, and its
    number of topics.
    """

    short: Row
    long: Row
    short_samples: int = 10
    long_samples: int = 1000
    topics: int = 0

    @property
    def long_rate(self) -> float:
        """Long-term messages/s in + out."""
        return self.long[RATE_IN] + self.long[RATE_OUT]


_DEFAULT: Row = (50.0, 50.0, 50_000.0, 50_000.0)
#: Pulsar's assumed averages of a bundle without measurements.
UNKNOWN = Averages(_DEFAULT, _DEFAULT, 0, 0)


@dataclass(frozen=True)
class Candidate:
    """A broker that may take the bundle, with the moves that its figures do not show yet.

    `usage`: its largest weighted resource (fraction); `expected`: the same with these moves
    counted.
    `arriving` (Pulsar: `preallocatedBundleData`), `leaving`: bundle → averages, in the order in
    which the moves were decided.
    """

    load: BrokerLoad
    usage: float
    expected: float
    arriving: Mapping[str, Averages] = field(default_factory=dict)
    leaving: Mapping[str, Averages] = field(default_factory=dict)

    @cached_property
    def long_rates(self) -> tuple[float, float]:
        """Long-term messages/s in and out of all bundles, summed one after the other as in Java."""
        summary = self.load.summary
        if summary is not None:
            return summary.rate_in, summary.rate_out
        long = self.load.bundles.long
        if not len(long):
            return 0.0, 0.0
        with np.errstate(all="ignore"):
            return float(np.cumsum(long[:, RATE_IN])[-1]), float(np.cumsum(long[:, RATE_OUT])[-1])

    @cached_property
    def arriving_rate(self) -> float:
        """Long-term messages/s of the bundles on their way, summed in the order of Java's map."""
        rates = [averages.long_rate for averages in self.arriving.values()]
        if len(rates) > 1:
            order = concurrent_hash_map_order(list(self.arriving)).tolist()
            rates = [rates[position] for position in order]
        return ordered_sum(rates)

    @cached_property
    def expected_rate(self) -> float:
        """Long-term messages/s in + out with every move counted, whatever the order of bundles. Not
        finite for invalid figures.
        """
        long = self.load.bundles.long
        try:
            total = fsum([*long[:, RATE_IN].tolist(), *long[:, RATE_OUT].tolist()])
        except (OverflowError, ValueError):
            return inf
        come, gone = (
            ordered_sum(moved.long_rate for moved in moves.values())
            for moves in (self.arriving, self.leaving)
        )
        return max(total + come - gone, 0.0)  # in this order NaN stays NaN


@dataclass(frozen=True)
class Request:
    """A bundle that needs a broker. `candidates`: broker → its load, None if unknown. `seed`:
    decides between equal candidates.
    """

    bundle: str
    averages: Averages
    candidates: Mapping[str, Candidate | None]
    seed: str


@dataclass(frozen=True, slots=True)
class Placement:
    """`best`: the brokers from which Pulsar draws, by name; `chosen`: the drawn one or None.
    `memory`: for the next call.

    `code` is stable; `text` continues a sentence that starts with the chosen broker or, without
    one, with the bundle.
    """

    best: tuple[str, ...]
    chosen: str | None
    memory: Memory
    code: str
    text: str
    evidence: Evidence = field(default_factory=dict)


class Placer(Protocol):
    """A rule that picks a broker for a bundle. Holds settings only; its memory is in `Memory`."""

    def place(self, request: Request, memory: Memory) -> Placement:
        """Places one bundle. Never raises on a valid request."""


@runtime_checkable
class OpensRounds(Placer, Protocol):
    """A placer whose memory changes at the beginning of a round, before any placement."""

    def open_round(self, brokers: Mapping[str, Candidate], memory: Memory) -> Memory:
        """Returns the memory at the beginning of a round, before any placement. `brokers`: all
        brokers with valid figures.
        """


@dataclass(frozen=True, slots=True)
class PlacementStrategy:
    """Registry entry of a placement: `fixed` and `parity` build the rule from its settings,
    `summary` is a sentence.

    `remembers`: whether its memory changes in a round that places no bundle. `sheds`: whether
    Pulsar's class is also a shedding strategy. `parity_in`: builds the rule of parity mode in
    releases of Pulsar whose rule is not that of the oldest known one. `meanings`: of the reason
    codes that no other module declares.
    """

    name: str
    pulsar_class: str
    summary: str
    settings: type
    fixed: Callable[[Any], Placer]
    parity: Callable[[Any], Placer]
    remembers: bool = False
    sheds: bool = False
    parity_in: Mapping[PulsarRelease, Callable[[Any], Placer]] = field(default_factory=dict)
    meanings: tuple[Meaning, ...] = ()

    def build(self, settings: object, mode: Mode, release: PulsarRelease = RELEASES[0]) -> Placer:
        """Builds the rule; `settings` must be of the entry's settings class. `release`: whose rule
        parity mode follows.
        """
        if mode == "fixed":
            return self.fixed(settings)
        return self.parity_in.get(release, self.parity)(settings)


@dataclass(frozen=True)
class DestinationRules:
    """Rules that name destinations. `placer`: None if Pulsar places bundles that leave without a
    destination.

    `balances_usage`: the shedding rule balances usage, so a move must not just shift the peak; a
    rule that balances traffic may do so. `drain_placer`: of bundles that leave draining brokers;
    None leaves them to Pulsar.
    """

    placer: Placer | None
    filters: Filters
    settings: DestinationSettings
    weights: Weights
    balances_usage: bool = True
    drain_placer: Placer | None = None


def seed_of(cluster: str, round_: int, bundle: str) -> str:
    """The seed of a draw: it depends on cluster, round and bundle only."""
    return "\x1f".join((cluster, str(round_), bundle))


def unplaced(memory: Memory) -> Placement:
    """The placement of a request without candidates."""
    return Placement((), None, memory, "no-candidates", "may go to no broker")


def without_figures(request: Request, memory: Memory, figure: str = "usage") -> Placement:
    """The placement of a request whose candidates, if any, have no finite figures."""
    if not request.candidates:
        return unplaced(memory)
    text = f"cannot be placed: the {figure} of no candidate is a finite number"
    return Placement((), None, memory, "unusable-figures", text)


def unknown_broker(memory: Memory, broker: str) -> Placement:
    """The placement where Java throws an exception, because a candidate has no load data."""
    return Placement(
        (),
        None,
        memory,
        "unknown-broker",
        f"cannot be placed: nothing is known of {broker}, one of the candidates",
    )


def as_decided(decision: Decision, allowed: Allowed) -> Decision | Skip:
    """Checks a destination that the extensible load manager chose while shedding."""
    if decision.destination is None:
        elsewhere = [broker for broker in allowed.brokers if broker != decision.source]
        return decision if elsewhere else skip(decision, nowhere(allowed))
    if decision.destination in allowed.brokers:
        return decision
    refusal = allowed.refused.get(decision.destination, NOT_THERE)
    return skip(
        decision,
        Refusal(refusal.code, f"was meant for {decision.destination}, which {refusal.text}"),
    )


def answer(decision: Decision, placement: Placement, allowed: Allowed) -> Decision | Skip:
    """The decision with the placement's broker and its reason, or why it found none."""
    if placement.chosen is None:
        return skip(
            decision,
            nowhere(allowed)
            if placement.code == "no-candidates"
            else Refusal(placement.code, placement.text),
        )
    text = (
        f"{decision.text}; {instead(decision, placement.chosen, allowed)}{placement.chosen} "
        f"{placement.text}"
    )
    evidence = {**decision.evidence, **placement.evidence, "placement": placement.code}
    return replace(decision, destination=placement.chosen, text=text, evidence=evidence)


def instead(decision: Decision, chosen: str, allowed: Allowed) -> str:
    """Explains why the bundle does not go to the broker that shedding named; empty if shedding
    named none.
    """
    refusal = (
        None
        if decision.destination is None or decision.destination == chosen
        else allowed.refused.get(decision.destination)
    )
    return "" if refusal is None else f"{decision.destination} {refusal.text}, but "


def nowhere(allowed: Allowed) -> Refusal:
    """Why no broker may take the bundle, as numbers of brokers per reason."""
    return Refusal("no-destination", f"may go to no broker: {allowed.summary()}")


def nowhere_at_all(allowed: Allowed) -> Refusal:
    """Why no broker may take the bundle: the reason of all of them, or their numbers."""
    others = {
        name: why
        for name, why in allowed.refused.items()
        if why.code not in ("source", BEING_DRAINED)
    }
    codes = {why.code for why in others.values()}
    if len(codes) != 1:
        return nowhere(allowed)
    why = next(iter(others.values()))
    return Refusal(why.code, f"may go to no broker: {next(iter(others))} {why.text}")


def skip(decision: Decision, refusal: Refusal) -> Skip:
    """The bundle of the decision stays."""
    return Skip("bundle", (decision.bundle,), refusal.code, f"it {refusal.text}", decision.source)


def exchanged_with(decision: Decision, together: Sequence[Decision]) -> frozenset[str]:
    """The destination, if it gives at least as many bundles of the namespace for those it takes."""
    if decision.destination is None:
        return frozenset()
    ends = decision.source, decision.destination
    same = [one for one in together if namespace_of(one.bundle) == namespace_of(decision.bundle)]
    there = sum((one.source, one.destination) == ends for one in same)
    back = sum((one.destination, one.source) == ends for one in same)
    return frozenset([decision.destination] if back >= there > 0 else [])

"""The main loop of TransferShedder in both modes, with its input and its verdict: whether the
cluster is uneven, and which bundles its two ends exchange.

Source of the rule: `TransferShedder.findBundlesForUnloading` of Pulsar 4.2.4.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan, sqrt
from typing import Literal

from strategies.bundles import is_system_bundle
from strategies.ordered_sum import ordered_sum
from strategies.shedding.transfer.settings import TransferSettings

TransferReason = Literal[
    "Overloaded",
    "Underloaded",
    "HitCount",
    "NoBundles",
    "CoolDown",
    "OutDatedData",
    "NoLoadData",
    "NoBrokers",
]


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """A broker's entry in the load-data store: averaged usage (fraction), averaged and current
    throughput (bytes/s), when (ms).
    """

    usage: float
    throughput_average: float
    throughput: float
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class OfferedBundle:
    """One of a broker's heaviest bundles, with its bytes/s."""

    bundle: str
    throughput: float


def transferable(
    settings: TransferSettings, candidates: Collection[str], source: str, destination: str
) -> bool:
    """Whether a bundle may move if these available brokers pass all filters."""
    if destination not in candidates:
        return False
    if settings.transfer:
        return destination != source
    return any(broker != source for broker in candidates)


#: Returns the top list of a broker, lightest bundle first; None for a broker without one.
TopLists = Callable[[str], Sequence[OfferedBundle] | None]


@dataclass(frozen=True)
class Stores:
    """Input of one round. `brokers`: in the order of the loop.

    `cooling`: bundles that moved recently; `unloaded_at_ms`: broker → when it last shed;
    `may_move(bundle, source, destination)`: whether policies and filters allow the move.
    """

    now_ms: int
    brokers: Mapping[str, BrokerEntry]
    top: TopLists
    available: Collection[str]
    cooling: Collection[str] = ()
    unloaded_at_ms: Mapping[str, int] = field(default_factory=dict)
    may_move: Callable[[str, str, str], bool] = lambda bundle, source, destination: True


@dataclass(frozen=True, slots=True)
class TransferMove:
    """A bundle that leaves; without a destination if transfers are off. `swapped`: it makes room on
    its broker for another bundle.
    """

    source: str
    bundle: str
    destination: str | None
    reason: TransferReason
    throughput: float
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and population standard deviation of usage, with the sums to estimate them after a
    move.
    """

    average: float = 0.0
    std: float = 0.0
    squares: float = 0.0
    count: int = 0

    def after(self, most: float, least: float, moved: float) -> "Statistics":
        """Statistics after a move of `moved` (usage) from the fullest to the emptiest broker; the
        mean stays.
        """
        fuller, emptier = max(most - moved, 0.0), least + moved  # in this order NaN stays NaN
        squares = self.squares - (most * most + least * least)
        squares += fuller * fuller + emptier * emptier
        std = sqrt(abs(squares / self.count - self.average * self.average))
        return Statistics(self.average, std, squares, self.count)


def statistics(usages: Sequence[float]) -> Statistics:
    """Statistics of at least one usage, summed in this order as in Java: for nearly equal usages
    the deviation may be NaN.
    """
    squares = ordered_sum(usage * usage for usage in usages)
    average = ordered_sum(usages) / len(usages)
    variance = squares / len(usages) - average * average
    return Statistics(average, sqrt(variance) if variance >= 0 else nan, squares, len(usages))


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """Verdict of a round. `skipped`: the reason why no bundle moves, None if some do.

    `published`: mean and standard deviation, if the round got as far as computing them. `over`:
    brokers that shed long enough ago. `left_out`: brokers left out of the round (fixed mode).
    """

    moves: tuple[TransferMove, ...]
    skipped: TransferReason | None
    hits: int
    statistics: Statistics
    published: tuple[float, float] | None
    over: frozenset[str] = frozenset()
    left_out: Mapping[str, TransferReason] = field(default_factory=dict)


def quotient(dividend: float, divisor: float) -> float:
    """IEEE division: infinite by zero, NaN for 0/0."""
    if divisor:
        return dividend / divisor
    return (
        nan if isnan(dividend) or dividend == 0 or isnan(divisor) else inf if dividend > 0 else -inf
    )


#: A swap must leave the fuller broker below this part of its traffic.
_SWAP_WORTH_IT = 0.75


@dataclass(frozen=True, slots=True)
class LoopRules:
    """Differences of the loop between modes and Pulsar's versions; in fixed mode all are true.

    `repaired`: if the fullest broker has no usage, throughputs decide how much is enough; a bundle
    that comes back passes the same checks as one that leaves; no bundle moves twice, and Pulsar's
    own bundles stay. `since_3_3`: a low throughput also makes a broker underloaded, and bundles
    without traffic stay. `counts_swaps`: the throughput that a swap brings back is counted.
    `excludes_namespaces`: bundles of excluded namespaces stay.
    """

    repaired: bool = True
    since_3_3: bool = True
    counts_swaps: bool = True
    excludes_namespaces: bool = True


@dataclass
class Loop:
    """The loop over `ranked` (brokers by usage, emptiest first), from both ends inwards."""

    stores: Stores
    settings: TransferSettings
    rules: LoopRules
    ranked: Sequence[str]
    statistics: Statistics
    moves: list[TransferMove] = field(default_factory=list)
    without_data: int = 0
    too_few_bundles: int = 0

    def __post_init__(self) -> None:
        self._lowest, self._highest, self._gave = 0, len(self.ranked) - 1, 0

    def reason(self) -> TransferReason | None:
        """Why the two ends should exchange bundles now; None when the cluster is even enough."""
        if self.statistics.std > self.settings.target_std:
            return "Overloaded"
        if self._is_underloaded():
            return "Underloaded"
        return "Overloaded" if self._is_overloaded() else None

    def run(self) -> None:
        """Pairs both ends until the cluster is even enough or the maximum number of brokers has
        shed.
        """
        while self._gave < self.settings.max_brokers and self._lowest < self._highest:
            reason = self.reason()
            if reason is None:
                break
            fullest, emptiest = self.ranked[self._highest], self.ranked[self._lowest]
            self._highest -= 1
            self._exchange(fullest, emptiest, reason)

    def skipped(self) -> TransferReason | None:
        """Why no bundle moves; None when some do."""
        if self.moves:
            return None
        return (
            "NoLoadData"
            if self.without_data
            else "NoBundles"
            if self.too_few_bundles
            else "HitCount"
        )

    def _is_underloaded(self) -> bool:
        least = self.stores.brokers[self.ranked[self._lowest]]
        part = min(0.5, max(0.0, self.settings.target_std / 2.0))
        if least.usage < self.statistics.average * part:
            return True
        if not self.rules.since_3_3:
            return False
        most = self.stores.brokers[self.ranked[self._highest]]
        return least.throughput_average < most.throughput_average * part

    def _is_overloaded(self) -> bool:
        usage = self.stores.brokers[self.ranked[self._highest]].usage
        return (
            usage > self.settings.overload_percent / 100.0
            and usage > self.statistics.average + self.settings.target_std
        )

    def _exchange(self, fullest: str, emptiest: str, reason: TransferReason) -> None:
        bundles = self.stores.top(fullest) or ()
        if len(bundles) < 2:
            self.without_data += not bundles
            self.too_few_bundles += len(bundles)
            return
        exchange = Exchange(self, fullest, emptiest, reason)
        exchange.run(bundles)
        if not exchange.marked > 0:
            self.too_few_bundles += 1
            return
        most, least = exchange.most, exchange.least
        moved = quotient((exchange.marked - exchange.gained) * most.usage, most.throughput)
        self.statistics = self.statistics.after(most.usage, least.usage, moved)
        self._gave += 1
        self._lowest += 1


class Exchange:
    """One pair of brokers. `marked`: bytes/s that leave the fuller one; `gained`: bytes/s that
    swaps bring back to it.
    """

    def __init__(self, loop: Loop, fullest: str, emptiest: str, reason: TransferReason) -> None:
        self._loop, self._fullest, self._emptiest, self._reason = loop, fullest, emptiest, reason
        self.most: BrokerEntry = loop.stores.brokers[fullest]
        self.least: BrokerEntry = loop.stores.brokers[emptiest]
        self.marked = self.gained = 0.0
        self._back: Iterator[OfferedBundle] | None = None

    def run(self, bundles: Sequence[OfferedBundle]) -> None:
        """Picks bundles, lightest first, until the next one is too heavy and no swap makes room for
        it; one bundle always stays.
        """
        remaining = len(bundles)
        enough = self._enough()
        for top in bundles:
            if not self._is_movable(top.bundle) or not self._loop.stores.may_move(
                top.bundle, self._fullest, self._emptiest
            ):
                continue
            if remaining <= 1:
                break
            if top.throughput == 0 and self._loop.rules.since_3_3:
                continue
            swaps: list[OfferedBundle] = []
            if self.marked - self.gained + top.throughput > enough:
                found = self._swap(top)
                if found is None:
                    break
                swaps = found
            self._emit(top, swaps)
            remaining -= 1

    def _enough(self) -> float:
        """Throughput that, when moved, makes both brokers equally full, if usage follows
        traffic.
        """
        difference = (self.most.usage - self.least.usage) / 2
        if self._loop.rules.repaired and not self.most.usage > 0:
            return (self.most.throughput - self.least.throughput) / 2
        return quotient(self.most.throughput * difference, self.most.usage)

    def _emit(self, top: OfferedBundle, swaps: Sequence[OfferedBundle]) -> None:
        moves, settings = self._loop.moves, self._loop.settings
        moves += [
            TransferMove(
                self._emptiest,
                swap.bundle,
                self._fullest,
                self._reason,
                swap.throughput,
                swapped=True,
            )
            for swap in swaps
        ]
        destination = self._emptiest if settings.transfer else None
        moves.append(
            TransferMove(self._fullest, top.bundle, destination, self._reason, top.throughput)
        )
        self.marked += top.throughput
        if self._loop.rules.counts_swaps:
            self.gained += ordered_sum(swap.throughput for swap in swaps)

    def _swap(self, top: OfferedBundle) -> list[OfferedBundle] | None:
        """Bundles of the emptier broker that may come back in exchange; None if no exchange
        helps.
        """
        if not self._loop.settings.transfer:
            return None
        if self._back is None:
            self._back = iter(self._loop.stores.top(self._emptiest) or ())
        limit = self.most.throughput
        fuller = limit - self.marked + self.gained - top.throughput
        emptier = self.least.throughput + self.marked - self.gained + top.throughput
        swaps: list[OfferedBundle] = []
        for swap in self._back:
            if not self._may_come_back(swap.bundle, top.bundle) or (
                swap.throughput == 0 and self._loop.rules.since_3_3
            ):
                continue
            if fuller + swap.throughput < limit and emptier - swap.throughput < limit:
                swaps.append(swap)
                fuller, emptier = fuller + swap.throughput, emptier - swap.throughput
                if emptier <= fuller < limit * _SWAP_WORTH_IT:
                    return swaps
        return None

    def _may_come_back(self, bundle: str, leaving: str) -> bool:
        if self._loop.rules.repaired and (bundle == leaving or not self._is_movable(bundle)):
            return False
        return self._loop.stores.may_move(bundle, self._emptiest, self._fullest)

    def _is_movable(self, bundle: str) -> bool:
        loop, rules = self._loop, self._loop.rules
        if rules.repaired and (
            is_system_bundle(bundle) or any(move.bundle == bundle for move in loop.moves)
        ):
            return False
        return bundle not in loop.stores.cooling and not (
            rules.excludes_namespaces and loop.settings.is_excluded(bundle)
        )

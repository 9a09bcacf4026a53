"""Searches the moves of a plan: one after the other by the potential that they remove per unit of
load, swaps where no single move helps. The potential is the load above and below the band.
"""

from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from strategies.bundles import Bools, Floats, namespace_of
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.planned_cluster import (
    TINY,
    UNSURE,
    LoadedBrokers,
    MovePlan,
    Numbers,
    PlannedMove,
    no_moves,
)
from strategies.shedding.steady.settings import MANY

#: A move is taken if it removes at least this part of its size from the potential; removing load
#: above the band and adding it below counts twice (Citus #4927).
WORTH = 0.5
#: Gain per price from which on the larger bundle is better: this part of the best possible gain,
#: twice the size.
_NEARLY_PERFECT = 0.93 * 2 / WORTH
#: Smallest gain of a move, in points of a broker of power 1.
_LEAST_GAIN = 0.3
#: Brokers at each end between which moves, and swaps, are tried.
_MOVE_ENDS, _SWAP_ENDS = 4, 2
#: Brokers at each end, and largest bundles of each, between which a plan may begin.
_START_ENDS, _START_BUNDLES = 2, 4
#: Of many brokers, what the clients of a bundle pay, in points of a broker of power 1: a move is
#: taken if its gain is not below this and `WORTH` of the mean of its load and its traffic.
_PAUSE = 0.1


def cheapest_band(usage: Floats, capacity: Floats, width: float) -> float:
    """The low end of the band: where the larger of the load above it and the load missing below it
    is smallest, plus a little of their sum.
    """
    edges = np.unique(np.concatenate([usage, usage - width]))
    first, last = 0, len(edges) - 1

    def difference(low: float) -> float:
        above = float((capacity * np.maximum(usage - width - low, 0.0)).sum())
        return above - float((capacity * np.maximum(low - usage, 0.0)).sum())

    while last - first > 1:
        middle = (first + last) // 2
        if difference(float(edges[middle])) > 0:
            first = middle
        else:
            last = middle
    low, high = float(edges[first]), float(edges[last])
    at_low, at_high = difference(low), difference(high)
    if at_low <= 0:
        return low
    return high if at_high >= 0 else low + (high - low) * at_low / (at_low - at_high)


#: Rows of source and destination, and position of the bundle in `_Held`.
FirstMove = tuple[int, int, int]


@dataclass(slots=True)
class _Held:
    """The bundles that a broker may still give, as columns; the arrays shrink as bundles leave.
    `prices`: what a move must gain at least, in load.
    """

    names: list[str]
    sizes: Floats
    unsure: Floats
    prices: Floats

    def without(self, at: int) -> "_Held":
        # `np.delete` takes five times as long.
        columns = (
            np.concatenate((column[:at], column[at + 1 :]))
            for column in (self.sizes, self.unsure, self.prices)
        )
        return _Held([*self.names[:at], *self.names[at + 1 :]], *columns)


@dataclass(slots=True)
class _Search:
    """The state of a search: usages after the moves so far, and the bundles left to move. `moved`:
    bundles of the moves, which two brokers may report; `stuck`: brokers whose bundles are all too
    large, or that may give none.
    """

    brokers: LoadedBrokers
    numbers: Numbers
    low: float
    high: float
    usage: Floats
    unsure: Floats
    gives: Bools
    takes: Bools
    held: dict[int, _Held] = field(default_factory=dict)
    moves: list[PlannedMove] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    stuck: set[int] = field(default_factory=set)
    refused: bool = False

    def of(self, row: int) -> _Held:
        if row not in self.held:
            pieces = self.brokers.pieces(row)
            rows = np.flatnonzero(pieces.movable & (pieces.sizes > TINY))
            order = sorted(
                rows.tolist(), key=lambda at: (-float(pieces.sizes[at]), pieces.names[at])
            )
            sizes = pieces.sizes[order]
            self.held[row] = _Held(
                [pieces.names[at] for at in order],
                sizes,
                pieces.unsure[order],
                self._prices(row, sizes, pieces.throughput[order]),
            )
        return self.held[row]

    def _prices(self, row: int, sizes: Floats, throughput: Floats) -> Floats:
        """Among few brokers of load only: there, whole plans are compared by traffic and moves."""
        if len(self.usage) <= MANY:
            return WORTH * sizes
        # Sorted, because the order of the bundles must not change a sum.
        load, traffic = (float(np.sort(one).sum()) for one in (sizes, throughput))
        both = (sizes + load / max(traffic, TINY) * throughput) / 2
        return np.asarray(WORTH * both + _PAUSE * self.brokers.capacity[row])

    def potential(self, row: int, loads: Floats, unsure: Floats) -> Floats:
        """Load above and below the band of a broker that gets this load, or gives it (negative)."""
        capacity = self.brokers.capacity[row]
        usage = self.usage[row] + loads / capacity
        if len(self.usage) > MANY:
            return np.asarray(capacity * self._outside_band(usage))
        costs = np.multiply.outer(UNSURE, self.unsure[row] + unsure / capacity) + usage
        return np.asarray(capacity * self._outside_band(costs).sum(axis=0) / len(costs))

    def _outside_band(self, usage: Floats) -> Floats:
        return np.maximum(np.maximum(usage - self.high, self.low - usage), 0.0)

    def present(self, row: int) -> float:
        """The potential of a broker now."""
        usage, capacity = float(self.usage[row]), float(self.brokers.capacity[row])
        if len(self.usage) > MANY:
            return capacity * max(usage - self.high, self.low - usage, 0.0)
        unsure = float(self.unsure[row])
        costs = [usage + part * unsure for part in UNSURE]
        outside = ordered_sum(max(one - self.high, self.low - one, 0.0) for one in costs)
        return capacity * outside / len(costs)

    @property
    def outside(self) -> float:
        """Load above and below the band of all brokers."""
        return ordered_sum(self.present(row) for row in range(len(self.usage)))

    def gain(self, source: int, destination: int, sizes: Floats, unsure: Floats) -> Floats:
        """By how much the potential falls if this load moves."""
        left = self.potential(source, -sizes, -unsure)
        taken = self.potential(destination, sizes, unsure)
        return self.present(source) + self.present(destination) - (left + taken)

    def room(self, source: int, destination: int) -> float:
        """Usage that a destination must stay below while it takes a bundle of the source."""
        return float(self.usage[source]) + self.brokers.ceiling(source, destination)

    def ends(self, count: int) -> tuple[list[int], list[int]]:
        order = np.argsort(self.usage, kind="stable")
        fullest = [row for row in order[::-1][:count].tolist() if self.gives[row]]
        return fullest, [row for row in order[:count].tolist() if self.takes[row]]

    def apply(self, source: int, destination: int, at: int, exchange: int = 0) -> None:
        held, capacity = self.of(source), self.brokers.capacity
        size, unsure = float(held.sizes[at]), float(held.unsure[at])
        self.moves.append(PlannedMove(held.names[at], source, destination, size, unsure, exchange))
        self.moved.add(held.names[at])
        self.numbers.count(held.names[at], source, destination)
        self.stuck -= {source, destination}
        self.held[source] = held.without(at)
        for row, sign in ((source, -1), (destination, 1)):
            self.usage[row] += sign * size / capacity[row]
            self.unsure[row] += sign * unsure / capacity[row]


def starts(brokers: LoadedBrokers) -> list[FirstMove]:
    """The moves of large bundles between the fullest and the emptiest brokers that a plan may begin
    with although they gain little alone: others then fill the source again.
    """
    search = _search(brokers, 0.0)
    fullest, emptiest = search.ends(_START_ENDS)
    return [
        (source, destination, at)
        for source in fullest
        for destination in emptiest
        for at in range(min(_START_BUNDLES, len(search.of(source).sizes)))
        if _may_start(search, source, destination, at)
    ]


def _may_start(search: _Search, source: int, destination: int, at: int) -> bool:
    held = search.of(source)
    after = search.usage[destination] + held.sizes[at] / search.brokers.capacity[destination]
    name = held.names[at]
    return (
        bool(after < search.room(source, destination) - TINY)
        and _allowed(search, name, source, destination)
        and _keeps_even(search, name, source, destination)
    )


def searched(brokers: LoadedBrokers, width: float, first: FirstMove | None = None) -> MovePlan:
    """The moves that bring the brokers as near to the cheapest band of this width as found.

    `first`: the move to begin with; there are no moves if all together gain less than half of what
    they move.
    """
    search = _search(brokers, width)
    before = search.outside
    if first is not None:
        search.apply(*first)
    _extend(search)
    plan = MovePlan(tuple(search.moves), search.usage, search.unsure, search.refused)
    if first is not None and before - search.outside < WORTH * plan.moved:
        return no_moves(brokers)
    return plan


def _search(brokers: LoadedBrokers, width: float) -> _Search:
    low = cheapest_band(brokers.usage, brokers.capacity, width)
    usage = brokers.usage
    return _Search(
        brokers,
        Numbers(brokers),
        low,
        low + width,
        usage.copy(),
        np.zeros(len(usage)),
        usage >= usage.min() + brokers.apart,
        usage <= usage.max() - brokers.apart,
    )


def _extend(search: _Search) -> None:
    """Adds the best moves, and swaps, until none is left."""
    exchanges = 0
    while True:
        found = _best_move(search)
        if found is not None:
            search.apply(*found)
            continue
        swap = _best_swap(search)
        if swap is None:
            break
        exchanges += 1
        source, destination, mine, theirs = swap
        search.apply(source, destination, mine, exchanges)
        search.apply(destination, source, theirs, exchanges)


def _best_move(search: _Search) -> tuple[int, int, int] | None:
    """Source, destination and position of the bundle with the largest gain per price. Brokers that
    can give nothing do not keep those behind them from giving. Of many, only those above the band
    give.
    """
    few = len(search.usage) <= MANY
    count, least = (_MOVE_ENDS, -np.inf) if few else (1, search.high)
    order = np.argsort(search.usage, kind="stable").tolist()
    emptiest = list(islice((row for row in order if search.takes[row]), _MOVE_ENDS))
    order.reverse()
    while True:
        giving = (row for row in order if search.gives[row] and row not in search.stuck)
        fullest = [row for row in islice(giving, count) if search.usage[row] > least]
        best = _best_of(search, fullest, emptiest[:count])
        if best is None and count == 1:
            best = _best_of(search, fullest, emptiest)
        if best is not None or not fullest:
            return best
        search.stuck.update(fullest)


def _best_of(search: _Search, fullest: list[int], emptiest: list[int]) -> FirstMove | None:
    """The best move between these brokers."""
    found: list[tuple[bool, float, float, int, int, int]] = []
    for source in fullest:
        for destination in emptiest:
            if search.usage[destination] >= search.usage[source]:
                continue
            one = _best_of_pair(search, source, destination)
            if one is not None:
                found.append(one)
    if not found:
        return None
    best = max(found, key=lambda one: (one[0], one[1] if one[0] else one[2], one[1]))
    return best[3], best[4], best[5]


def _best_of_pair(
    search: _Search, source: int, destination: int
) -> tuple[bool, float, float, int, int, int] | None:
    """Whether the best bundle's gain is nearly perfect, the gain, the gain per price, and the
    move.
    """
    held = search.of(source)
    if not len(held.sizes):
        return None
    brokers, usage = search.brokers, search.usage
    destination_after = usage[destination] + held.sizes / brokers.capacity[destination]
    gain = search.gain(source, destination, held.sizes, held.unsure)
    fine = (
        (destination_after < search.room(source, destination) - TINY)
        & (gain >= held.prices)
        & (gain >= _LEAST_GAIN * min(brokers.capacity[source], brokers.capacity[destination]))
    )
    ratio = np.where(fine, gain / held.prices, -1.0)
    while ratio[at := int(ratio.argmax())] > 0.0:
        perfect = bool(ratio[at] >= _NEARLY_PERFECT)
        if perfect:
            at = int(np.where(ratio >= _NEARLY_PERFECT, gain, -1.0).argmax())
        name = held.names[at]
        if _allowed(search, name, source, destination) and _keeps_even(
            search, name, source, destination
        ):
            return perfect, float(gain[at]), float(ratio[at]), source, destination, at
        ratio[at] = -1.0
    return None


def _allowed(search: _Search, bundle: str, source: int, destination: int) -> bool:
    if bundle in search.moved:
        return False
    allowed = bool(search.brokers.takers(bundle, source)[destination])
    search.refused |= not allowed
    return allowed


def _keeps_even(search: _Search, bundle: str, source: int, destination: int) -> bool:
    """Whether a move keeps distribution by number; the next moves may change the answer."""
    allowed = search.numbers.allow(bundle, source, destination)
    search.refused |= not allowed
    return allowed


def _best_swap(search: _Search) -> tuple[int, int, int, int] | None:
    """Source, destination, and the positions of the bundles that change places."""
    brokers, usage = search.brokers, search.usage
    best, found = 0.0, None
    fullest, emptiest = search.ends(_SWAP_ENDS)
    for source in fullest:
        for destination in emptiest:
            mine, theirs = search.of(source), search.of(destination)
            if usage[destination] >= usage[source] or not len(mine.sizes) or not len(theirs.sizes):
                continue
            moved = mine.sizes[:, None] - theirs.sizes[None, :]
            prices = mine.prices[:, None] + theirs.prices[None, :]
            source_after = usage[source] - moved / brokers.capacity[source]
            between = usage[destination] + mine.sizes / brokers.capacity[destination]
            unsure = mine.unsure[:, None] - theirs.unsure[None, :]
            gain = search.gain(source, destination, moved, unsure)
            fine = (
                (between[:, None] < search.room(source, destination) - TINY)
                & (source_after < between[:, None] + brokers.ceiling(destination, source) - TINY)
                & (gain >= prices)
                & (
                    gain
                    >= _LEAST_GAIN * min(brokers.capacity[source], brokers.capacity[destination])
                )
            )
            gain = np.where(fine, gain, 0.0)
            while gain.max() > best:
                one, other = np.unravel_index(int(gain.argmax()), gain.shape)
                if not _allowed(search, mine.names[one], source, destination):
                    gain[one, :] = 0.0
                elif not _allowed(search, theirs.names[other], destination, source):
                    gain[:, other] = 0.0
                elif not _are_two(search, mine.names[one], theirs.names[other]):
                    gain[one, other] = 0.0
                else:
                    best = float(gain[one, other])
                    found = (source, destination, int(one), int(other))
                    break
    return found


def _are_two(search: _Search, one: str, other: str) -> bool:
    """Whether a swap is one of two bundles that leaves distribution by number as it is."""
    by_number = search.brokers.served is not None
    return one != other and (not by_number or namespace_of(one) == namespace_of(other))

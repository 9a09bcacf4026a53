"""Plans the moves that bring the usages of all brokers into a band, with as little load moved as
possible.

The band [low, low + width] is the cheapest one that divisible load could reach. Moves are picked
one after the other by the potential that they remove per unit of load (the potential is the load
above and below the band), swaps where no single move helps; then moves that are not needed are
dropped, or replaced by smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from strategies.bundles.bundle_loads import Bools, Floats, Ints
from strategies.filters.contract import namespace_of

#: A move is taken if it removes at least this part of its size from the potential; removing load
#: above the band and adding it below counts twice (Citus #4927).
WORTH = 0.5
#: Part of the best possible gain (twice the size) from which on the larger bundle is better.
_NEARLY_PERFECT = 0.93
#: Smallest gain of a move, in points of a broker of power 1.
_LEAST_GAIN = 0.3
_SWAP_WORTH = 0.5
#: Brokers at each end between which moves, and swaps, are tried.
_MOVE_ENDS, _SWAP_ENDS = 4, 2
#: Widths that are tried, as factors of the profile's band; of more brokers than `_MANY`, the first
#: one only, one cost of load, and one broker at each end at a time: their plans are long.
_WIDTHS = (1.0, 0.7, 1.3)
_MANY = 60
#: What a plan costs: points per part of all load that moves, and per point above the band.
_MOVED_COST, _WIDE_COST = 50.0, 3.0
#: Only brokers with different traffic show what bytes and what messages cost. Plans are good on
#: average over costs in which this part of the load moves from one to the other.
_UNSURE = (-0.5, 0.0, 0.5)
#: A move is dropped if the plan's spread grows by less than this part of what its moves cut it by
#: on average: for the clients of a bundle, a pause that changes next to nothing is still a pause.
_FAIR_SHARE = 0.25
#: A plan must cut the spread by this part.
LEAST_CUT = 0.2
_TINY = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The bundles of one broker. float64[n]: `sizes`, load; `unsure`, the load that would be added
    if only bytes cost anything, and not there if only messages did; `throughput`, bytes/s; bool[n]:
    `movable` now, and `bound` to the broker for ever.
    """

    names: Sequence[str]
    sizes: Floats
    unsure: Floats
    throughput: Floats
    movable: Bools
    bound: Bools


@dataclass(frozen=True, slots=True, eq=False)
class LoadedBrokers:
    """The brokers of a plan, by name. `usage`: float64[n] in points; `capacity`: float64[n], load
    per point; `pieces`: of a broker, by row; `takers`: bundle, source row → bool[n], the brokers
    that policies and filters allow. `apart`: points; only brokers at least this far above the
    emptiest give bundles, and only those as far below the fullest take some. `served`: namespace →
    int64[n], number of its bundles; None where it does not limit moves.
    """

    usage: Floats
    capacity: Floats
    pieces: Callable[[int], Pieces]
    takers: Callable[[str, int], Bools]
    apart: float = 0.0
    served: Callable[[str], Ints] | None = None


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A bundle's move between brokers (rows). `size`, `unsure`: as in `Pieces`; `exchange`: number
    of the swap that it is half of, 0 for others.
    """

    bundle: str
    source: int
    destination: int
    size: float
    unsure: float
    exchange: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class MovePlan:
    """The moves in their order, and float64[n]: usages (points) after them, and the part of them
    that is unsure. `refused`: policies or filters forbid the best move that a plan wanted.
    """

    moves: tuple[PlannedMove, ...]
    after: Floats
    unsure: Floats
    refused: bool = False

    @property
    def spread(self) -> float:
        return spread_of(self.after)

    @property
    def unsure_spread(self) -> float:
        """The spread if the cost of bytes and messages is the least favourable one."""
        return _unsure_spread(self.after, self.unsure)

    @property
    def moved(self) -> float:
        return sum(one.size for one in self.moves)

    def only(self, bundles: Collection[str], brokers: LoadedBrokers) -> MovePlan:
        """The plan without the moves of other bundles; the same plan where there are none."""
        kept = tuple(one for one in self.moves if one.bundle in bundles)
        if len(kept) == len(self.moves):
            return self
        after = brokers.usage.copy()
        for move in kept:
            after[move.source] -= move.size / brokers.capacity[move.source]
            after[move.destination] += move.size / brokers.capacity[move.destination]
        return replace(self, moves=kept, after=after)


def best_plan(brokers: LoadedBrokers, width: float) -> MovePlan:
    """The cheapest plan; without moves if none cuts the spread by a fifth. `width`: of the band, in
    points.
    """
    before, total = spread_of(brokers.usage), float((brokers.usage * brokers.capacity).sum())
    best = no_moves(brokers)
    least, refused = float("inf"), False
    for factor in _WIDTHS if len(brokers.usage) <= _MANY else _WIDTHS[:1]:
        plan = _polished(brokers, _searched(brokers, width * factor), width)
        refused |= plan.refused
        if not plan.moves or plan.spread > (1.0 - LEAST_CUT) * before:
            continue
        cost = _MOVED_COST * plan.moved / max(total, _TINY) + _WIDE_COST * max(
            0.0, plan.unsure_spread - width
        )
        if cost < least:
            best, least = plan, cost
    return replace(best, refused=refused)


def no_moves(brokers: LoadedBrokers) -> MovePlan:
    """The plan that leaves everything where it is."""
    return MovePlan((), brokers.usage, np.zeros(len(brokers.usage)))


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


def spread_of(usage: Floats) -> float:
    """Highest minus lowest usage."""
    return float(usage.max() - usage.min()) if len(usage) else 0.0


def _unsure_spread(usage: Floats, unsure: Floats) -> float:
    return max(spread_of(usage + part * unsure) for part in _UNSURE)


@dataclass(slots=True)
class _Held:
    """The bundles that a broker may still give, as columns; the arrays shrink as bundles leave."""

    names: list[str]
    sizes: Floats
    unsure: Floats

    def without(self, at: int) -> _Held:
        return _Held(
            [*self.names[:at], *self.names[at + 1 :]],
            np.delete(self.sizes, at),
            np.delete(self.unsure, at),
        )


@dataclass(slots=True)
class _Numbers:
    """Bundles per namespace and broker after the moves so far, where they are spread by number."""

    brokers: LoadedBrokers
    served: dict[str, Ints] = field(default_factory=dict)

    def allow(self, bundle: str, source: int, destination: int) -> bool:
        """Whether the bundle may move next (the rule of `no_less_even`)."""
        if self.brokers.served is None:
            return True
        served = self._of(bundle)
        least = served[self.brokers.takers(bundle, source)].min(initial=served[destination])
        return bool(served[destination] <= max(least, served[source] - 1))

    def count(self, bundle: str, source: int, destination: int) -> None:
        if self.brokers.served is not None:
            served = self._of(bundle)
            served[source] -= 1
            served[destination] += 1

    def _of(self, bundle: str) -> Ints:
        assert self.brokers.served is not None
        namespace = namespace_of(bundle)
        if namespace not in self.served:
            self.served[namespace] = self.brokers.served(namespace).copy()
        return self.served[namespace]


@dataclass(slots=True)
class _Search:
    """The state of a search: usages after the moves so far, and the bundles left to move."""

    brokers: LoadedBrokers
    numbers: _Numbers
    low: float
    high: float
    usage: Floats
    unsure: Floats
    gives: Bools
    takes: Bools
    held: dict[int, _Held] = field(default_factory=dict)
    moves: list[PlannedMove] = field(default_factory=list)
    forbidden: set[tuple[str, int]] = field(default_factory=set)
    refused: bool = False

    def of(self, row: int) -> _Held:
        if row not in self.held:
            pieces = self.brokers.pieces(row)
            rows = np.flatnonzero(pieces.movable & (pieces.sizes > 0))
            order = sorted(
                rows.tolist(), key=lambda at: (-float(pieces.sizes[at]), pieces.names[at])
            )
            self.held[row] = _Held(
                [pieces.names[at] for at in order], pieces.sizes[order], pieces.unsure[order]
            )
        return self.held[row]

    def potential(self, row: int, usage: Floats | float, unsure: Floats | float) -> Floats:
        """Load above and below the band of a broker at these usages."""
        parts = _UNSURE if len(self.usage) <= _MANY else (0.0,)
        costs = [np.add(usage, np.multiply(part, unsure)) for part in parts]
        outside = sum(
            np.maximum(one - self.high, 0.0) + np.maximum(self.low - one, 0.0) for one in costs
        )
        return np.asarray(self.brokers.capacity[row] * outside / len(costs))

    def gain(self, source: int, destination: int, sizes: Floats, unsure: Floats) -> Floats:
        """By how much the potential falls if this load moves."""
        rows, signs = (source, destination), (-1.0, 1.0)
        before = sum(self.potential(row, self.usage[row], self.unsure[row]) for row in rows)
        after = sum(
            self.potential(
                row,
                self.usage[row] + sign * sizes / self.brokers.capacity[row],
                self.unsure[row] + sign * unsure / self.brokers.capacity[row],
            )
            for row, sign in zip(rows, signs, strict=True)
        )
        return np.asarray(before - after)

    def ends(self, count: int) -> tuple[list[int], list[int]]:
        order = np.argsort(self.usage, kind="stable")
        fullest = [row for row in order[::-1][:count].tolist() if self.gives[row]]
        return fullest, [row for row in order[:count].tolist() if self.takes[row]]

    def apply(self, source: int, destination: int, at: int, exchange: int = 0) -> None:
        held, capacity = self.of(source), self.brokers.capacity
        size, unsure = float(held.sizes[at]), float(held.unsure[at])
        self.moves.append(PlannedMove(held.names[at], source, destination, size, unsure, exchange))
        self.numbers.count(held.names[at], source, destination)
        self.held[source] = held.without(at)
        for row, sign in ((source, -1), (destination, 1)):
            self.usage[row] += sign * size / capacity[row]
            self.unsure[row] += sign * unsure / capacity[row]


def _searched(brokers: LoadedBrokers, width: float) -> MovePlan:
    low = cheapest_band(brokers.usage, brokers.capacity, width)
    usage = brokers.usage
    search = _Search(
        brokers,
        _Numbers(brokers),
        low,
        low + width,
        usage.copy(),
        np.zeros(len(usage)),
        usage >= usage.min() + brokers.apart,
        usage <= usage.max() - brokers.apart,
    )
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
    return MovePlan(tuple(search.moves), search.usage, search.unsure, search.refused)


def _best_move(search: _Search) -> tuple[int, int, int] | None:
    """Source, destination and position of the bundle with the largest gain per load."""
    found: list[tuple[bool, float, float, int, int, int]] = []
    fullest, emptiest = search.ends(_MOVE_ENDS if len(search.usage) <= _MANY else 1)
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
    """Whether the best bundle's gain is nearly perfect, the gain, the gain per load, and the
    move.
    """
    held = search.of(source)
    if not len(held.sizes):
        return None
    brokers, usage = search.brokers, search.usage
    destination_after = usage[destination] + held.sizes / brokers.capacity[destination]
    gain = search.gain(source, destination, held.sizes, held.unsure)
    fine = (
        (destination_after < usage[source] - _TINY)
        & (gain >= WORTH * held.sizes)
        & (gain >= _LEAST_GAIN * min(brokers.capacity[source], brokers.capacity[destination]))
    )
    ratio = np.where(fine, gain / held.sizes, -1.0)
    while fine.any():
        perfect = ratio >= 2 * _NEARLY_PERFECT
        at = int(np.where(perfect, gain, -1.0).argmax() if perfect.any() else ratio.argmax())
        name = held.names[at]
        if _allowed(search, name, source, destination) and search.numbers.allow(
            name, source, destination
        ):
            return bool(perfect[at]), float(gain[at]), float(ratio[at]), source, destination, at
        fine[at], ratio[at] = False, -1.0
    return None


def _allowed(search: _Search, bundle: str, source: int, destination: int) -> bool:
    if (bundle, destination) in search.forbidden:
        return False
    if search.brokers.takers(bundle, source)[destination]:
        return True
    search.forbidden.add((bundle, destination))
    search.refused = True
    return False


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
            both = mine.sizes[:, None] + theirs.sizes[None, :]
            source_after = usage[source] - moved / brokers.capacity[source]
            between = usage[destination] + mine.sizes / brokers.capacity[destination]
            unsure = mine.unsure[:, None] - theirs.unsure[None, :]
            gain = search.gain(source, destination, moved, unsure)
            fine = (
                (between[:, None] < usage[source] - _TINY)
                & (source_after < between[:, None] - _TINY)
                & (gain >= _SWAP_WORTH * both)
                & (
                    gain
                    >= _LEAST_GAIN * min(brokers.capacity[source], brokers.capacity[destination])
                )
            )
            gain = np.where(fine, gain, 0.0)
            while gain.max() > best:
                one, other = np.unravel_index(int(gain.argmax()), gain.shape)
                if (
                    _allowed(search, mine.names[one], source, destination)
                    and _allowed(search, theirs.names[other], destination, source)
                    and _keeps_numbers(search, mine.names[one], theirs.names[other])
                ):
                    best = float(gain[one, other])
                    found = (source, destination, int(one), int(other))
                    break
                gain[one, other] = 0.0
    return found


def _keeps_numbers(search: _Search, one: str, other: str) -> bool:
    """Whether a swap leaves distribution by number as it is."""
    return search.brokers.served is None or namespace_of(one) == namespace_of(other)


def _polished(brokers: LoadedBrokers, plan: MovePlan, width: float) -> MovePlan:
    """The plan without moves that are not needed, and with smaller bundles where they suffice."""
    if not plan.moves or len(plan.moves) > _MANY:
        return plan
    before = spread_of(brokers.usage)
    moves, spread = list(plan.moves), plan.unsure_spread
    for move in sorted(plan.moves, key=lambda one: (one.size, one.bundle)):
        if move.exchange:
            continue
        rest = [one for one in moves if one is not move]
        share = _FAIR_SHARE * max(0.0, before - spread) / len(moves)
        if _keeps(brokers, rest, max(width, spread + share) + _TINY):
            moves, spread = rest, _unsure_spread(*_after(brokers, rest))
    allowed = max(width, spread) + _TINY
    moved = {one.bundle for one in moves}
    for at, move in enumerate(moves):
        if move.exchange:
            continue
        pieces = brokers.pieces(move.source)
        smaller = sorted(
            (float(size), name, float(unsure))
            for name, size, unsure, movable in zip(
                pieces.names,
                pieces.sizes.tolist(),
                pieces.unsure.tolist(),
                pieces.movable.tolist(),
                strict=True,
            )
            if movable and 0 < size < move.size and name not in moved
        )
        for size, name, unsure in smaller:
            other = PlannedMove(name, move.source, move.destination, size, unsure)
            trial = [*moves[:at], other, *moves[at + 1 :]]
            takers = brokers.takers(name, move.source)
            if takers[move.destination] and _keeps(brokers, trial, allowed):
                moved = (moved - {move.bundle}) | {name}
                moves = trial
                break
    return MovePlan(tuple(moves), *_after(brokers, moves), plan.refused)


def _keeps(brokers: LoadedBrokers, moves: Sequence[PlannedMove], spread: float) -> bool:
    """Whether the moves reach this spread, none of them making its destination fuller than its
    source was, or distribution by number less even.
    """
    usage, numbers = brokers.usage.copy(), _Numbers(brokers)
    for move in moves:
        if not move.exchange and not numbers.allow(move.bundle, move.source, move.destination):
            return False
        numbers.count(move.bundle, move.source, move.destination)
        before = usage[move.source]
        usage[move.source] -= move.size / brokers.capacity[move.source]
        usage[move.destination] += move.size / brokers.capacity[move.destination]
        if usage[move.destination] > before:
            return False
    return _unsure_spread(*_after(brokers, moves)) <= spread


def _after(brokers: LoadedBrokers, moves: Sequence[PlannedMove]) -> tuple[Floats, Floats]:
    """float64[n] twice: usages after the moves, and the part of them that is unsure."""
    usage, unsure = brokers.usage.copy(), np.zeros(len(brokers.usage))
    for move in moves:
        for row, sign in ((move.source, -1), (move.destination, 1)):
            usage[row] += sign * move.size / brokers.capacity[row]
            unsure[row] += sign * move.unsure / brokers.capacity[row]
    return usage, unsure

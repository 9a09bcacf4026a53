"""A plan: moves between loaded brokers, and the usages after them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from strategies.bundles import Bools, Floats, Ints, namespace_of
from strategies.ordered_sum import ordered_sum

#: Only brokers with different traffic show what bytes and what messages cost. Plans are good on
#: average over costs in which this part of the load moves from one to the other.
UNSURE = (-0.5, 0.0, 0.5)
TINY = 1e-9


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
    int64[n], number of its bundles; None where it does not limit moves. `shown`: float64[n] in
    points, usages that the brokers show, where `usage` is an estimate.
    """

    usage: Floats
    capacity: Floats
    pieces: Callable[[int], Pieces]
    takers: Callable[[str, int], Bools]
    apart: float = 0.0
    served: Callable[[str], Ints] | None = None
    shown: Floats | None = None

    def effect(self, move: "PlannedMove") -> tuple[float, float]:
        """The points that a move takes from its source and adds to its destination."""
        loses, gains = (
            move.size / float(self.capacity[row]) for row in (move.source, move.destination)
        )
        return loses, gains

    def ceiling(self, source: int, destination: int) -> float:
        """How much fuller than the source was (points, 0 or less) a move may make its destination,
        so that it is not fuller by `usage` nor by `shown`.
        """
        if self.shown is None:
            return 0.0
        above, under = (self.shown[row] - self.usage[row] for row in (source, destination))
        return min(0.0, float(above - under))


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
    def rows(self) -> list[int]:
        """The brokers that give or take bundles."""
        return sorted({row for one in self.moves for row in (one.source, one.destination)})

    @property
    def spread(self) -> float:
        return spread_of(self.after)

    @property
    def unsure_spread(self) -> float:
        """The spread if the cost of bytes and messages is the least favourable one."""
        return unsure_spread(self.after, self.unsure)

    @property
    def moved(self) -> float:
        return ordered_sum(one.size for one in self.moves)

    def only(self, bundles: Collection[str], brokers: LoadedBrokers) -> "MovePlan":
        """The plan without the moves of other bundles; the same plan where there are none."""
        kept = tuple(one for one in self.moves if one.bundle in bundles)
        if len(kept) == len(self.moves):
            return self
        return replace(self, moves=kept, after=after_moves(brokers, kept)[0])


def no_moves(brokers: LoadedBrokers) -> MovePlan:
    """The plan that leaves everything where it is."""
    return MovePlan((), brokers.usage, np.zeros(len(brokers.usage)))


def spread_of(usage: Floats) -> float:
    """Highest minus lowest usage."""
    return float(usage.max() - usage.min()) if len(usage) else 0.0


def unsure_spread(usage: Floats, unsure: Floats) -> float:
    """The spread if the cost of bytes and messages is the least favourable one."""
    return max(spread_of(usage + part * unsure) for part in UNSURE)


@dataclass(slots=True)
class Numbers:
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


def after_moves(brokers: LoadedBrokers, moves: Sequence[PlannedMove]) -> tuple[Floats, Floats]:
    """float64[n] twice: usages after the moves, and the part of them that is unsure."""
    usage, unsure = brokers.usage.copy(), np.zeros(len(brokers.usage))
    for move in moves:
        for row, sign in ((move.source, -1), (move.destination, 1)):
            usage[row] += sign * move.size / brokers.capacity[row]
            unsure[row] += sign * move.unsure / brokers.capacity[row]
    return usage, unsure

"""The cluster as a plan sees it, and as its moves leave it: usages and capacities of brokers, sizes
of their bundles.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np

from strategies.bundles import Bools, Floats, Ints, namespace_of
from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.ordered_sum import ordered_sum
from strategies.shedding.candidates import Candidates, candidates
from strategies.shedding.steady.learned_load_cost import LEAST_TRAFFIC, LoadCost, drawn
from strategies.shedding.steady.load_samples import both_directions, traffic, usable
from strategies.shedding.steady.memory_format import LoadSample

#: Only brokers with different traffic show what bytes and what messages cost. Plans are good on
#: average over costs with these parts of what is unsure.
UNSURE = (-1.0, 0.0, 1.0)
TINY = 1e-9
#: Samples of a bundle's average from which on it says what the bundle usually carries.
YOUNG = 20


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The bundles of one broker. float64[n]: `sizes`, load; `unsure`, the load that would be added
    if bytes cost as much more as is likely, and not there if messages did; `throughput`, bytes/s;
    bool[n]: `movable` now, and `bound` to the broker for ever.
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
    points, usages that the brokers show, which `usage` estimates.
    """

    usage: Floats
    capacity: Floats
    pieces: Callable[[int], Pieces]
    takers: Callable[[str, int], Bools]
    shown: Floats
    apart: float = 0.0
    served: Callable[[str], Ints] | None = None

    def move(self, source: int, at: int, destination: int, exchange: int = 0) -> "PlannedMove":
        """The move of a bundle of `source`, the one at this place of its pieces."""
        held = self.pieces(source)
        size, unsure = float(held.sizes[at]), float(held.unsure[at])
        return PlannedMove(held.names[at], source, destination, size, unsure, exchange)

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
    def spread(self) -> float:
        return spread_of(self.after)

    @property
    def unsure_spread(self) -> float:
        """The spread if the cost of bytes and messages is the least favourable one."""
        return unsure_spread(self.after, self.unsure)

    @property
    def moved(self) -> float:
        return ordered_sum(one.size for one in self.moves)

    def on(self, brokers: LoadedBrokers) -> "MovePlan":
        """The same moves with the sizes that other estimates of the same brokers have."""
        moves = [
            brokers.move(
                one.source,
                brokers.pieces(one.source).names.index(one.bundle),
                one.destination,
                one.exchange,
            )
            for one in self.moves
        ]
        return MovePlan(tuple(moves), *after_moves(brokers, moves), self.refused)

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


@dataclass(frozen=True)
class PlannedCluster:
    """The brokers that take part in a plan, by name, with their present load. `resting`: bundles
    that the strategy moved lately and that stay; `left`: bundles and the brokers that they left
    lately; `lasting`: part of a broker's deviation from the averages of its bundles (points) that
    lasts; with it, sizes and usages are forecasts.
    """

    view: ClusterView
    known: Sequence[tuple[BrokerLoad, LoadSample]]
    cost: LoadCost
    resting: frozenset[str]
    left: frozenset[tuple[str, str]] = frozenset()
    apart: float = 0.0
    lasting: Callable[[float], float] | None = None

    @cached_property
    def names(self) -> list[str]:
        return [load.broker for load, _ in self.known]

    @cached_property
    def brokers(self) -> LoadedBrokers:
        """As input of a plan: usages in points, load in units of a broker of power 1."""
        capacity = [self.cost.capacity(load.broker, now) / 100.0 for load, now in self.known]
        shown = np.array([100.0 * now.usage for _, now in self.known])
        explained = [100.0 * self.cost.expected(load.broker, now) for load, now in self.known]
        usage = drawn(shown, np.array(explained))
        if self.lasting is not None:
            more = shown - [self.usual_points(row) for row in range(len(self.known))]
            passing = np.array([(1.0 - self.lasting(one)) * one for one in more.tolist()])
            usage, shown = usage - passing, shown - passing
        return LoadedBrokers(
            usage,
            np.array(capacity),
            self.pieces,
            self.takers,
            shown,
            self.apart,
            None if self.view.even is None else cache(self._numbers),
        )

    @cached_property
    def pieces(self) -> Callable[[int], Pieces]:
        """The bundles of a broker, by row; each is read once."""
        return cache(self._read)

    def traffic_of(self, row: int, bundle: str) -> tuple[float, float]:
        """Bytes/s and messages/s of a bundle on this broker."""
        throughput, rate = self._traffic(row)
        at = self.known[row][0].bundles.names.index(bundle)
        return float(throughput[at]), float(rate[at])

    def effect_of(self, bundle: str, source: str, destination: str) -> tuple[float, float] | None:
        """As `Shedding.effect`; None for bundles that no report lists, and for brokers that are not
        compared, or have no sample yet.
        """
        if not {source, destination} <= {*self.names}:
            return None
        row, to = self.names.index(source), self.names.index(destination)
        names = self.pieces(row).names
        if bundle not in names:
            return None
        loses, gains = self.brokers.effect(self.brokers.move(row, names.index(bundle), to))
        return loses / 100, gains / 100

    @cached_property
    def _alone(self) -> tuple[float, float]:
        """Load per byte/s, if only bytes cost anything, and per message/s, if only messages do."""
        throughput, rate = (
            ordered_sum(float(now[figure]) for _, now in self.known) for figure in (2, 3)
        )
        load = self.cost.of(throughput, rate)
        per_byte, per_message = (
            load / one if one >= LEAST_TRAFFIC else 0.0 for one in (throughput, rate)
        )
        return per_byte, per_message

    @cached_property
    def lists_all(self) -> bool:
        """Whether the brokers list all their bundles: with the extensible load manager, reports
        have only the heaviest.
        """
        return not any(self._lists_some(row) for row in range(len(self.known)))

    def _lists_some(self, row: int) -> bool:
        load = self.known[row][0]
        return load.figures.bundle_count > len(load.bundles.names)

    def unlisted(self, row: int) -> float:
        """Load of the bundles that a broker serves and does not list."""
        if not self._lists_some(row):
            return 0.0
        now = self.known[row][1]
        # Sorted, because the order of the bundles must not change a sum.
        listed = float(np.sort(self.pieces(row).sizes).sum())
        return max(0.0, self.cost.of(now.throughput, now.msg_rate) - listed)

    def candidates(self, row: int, taken: Collection[str] = ()) -> Candidates:
        """The bundles of a broker that may leave, and those that must stay. `taken`: bundles that
        leave other brokers.
        """
        return candidates(self.known[row][0].bundles, self.view, taken)

    @cached_property
    def _traffic(self) -> Callable[[int], tuple[Floats, Floats]]:
        """Bytes/s and messages/s of the bundles of a broker, by row; each is computed once."""
        return cache(self._present_traffic)

    def _present_traffic(self, row: int) -> tuple[Floats, Floats]:
        load, now = self.known[row]
        return traffic(load.bundles, now)

    def present_sizes(self, row: int) -> Floats:
        """float64[n]: present load of the bundles of a broker."""
        return self.cost.of(*self._traffic(row))

    def sizes(self, row: int) -> Floats:
        """float64[n]: load of the bundles of a broker, present or forecast."""
        now = self.present_sizes(row)
        if self.lasting is None:
            return now
        usual, shown = self.usual_sizes(row), 100.0 * self.known[row][1].usage
        return usual + self.lasting(shown - self.usual_points(row)) * (now - usual)

    def usual_points(self, row: int) -> float:
        """Points that a broker would show if its bundles carried what they usually do."""
        load, now = self.known[row]
        listed = _sum(self.present_sizes(row)) if self._lists_some(row) else np.inf
        present = self.cost.of(now.throughput, now.msg_rate)
        more = _sum(self.usual_sizes(row)) + max(0.0, present - listed) - present
        return 100.0 * (
            self.cost.expected(load.broker, now) + more / self.cost.powers.get(load.broker, 1.0)
        )

    @cached_property
    def averaged(self) -> int:
        """Samples of the averages of most bundles."""
        return int(
            np.median(
                [one for load, _ in self.known for one in load.bundles.long_samples.tolist()] or [0]
            )
        )

    def usual_sizes(self, row: int) -> Floats:
        """float64[n]: load of the bundles of a broker by their long-term averages; of bundles with
        few samples, the present one.
        """
        table = self.known[row][0].bundles
        usual = self.cost.of(*both_directions(usable(table.long)))
        return np.where(table.long_samples >= YOUNG, usual, self.present_sizes(row))

    def _read(self, row: int) -> Pieces:
        table, found = self.known[row][0].bundles, self.candidates(row)
        movable = np.zeros(len(table.names), dtype=bool)
        movable[list(found.rows)] = True
        if self.resting:
            movable &= np.array([name not in self.resting for name in table.names], dtype=bool)
        codes = "system-bundle", "excluded-namespace"
        for_ever = {name for code in codes for name in found.staying.get(code, ())}
        bound = np.array([name in for_ever for name in table.names], dtype=bool)
        throughput, rate = self._traffic(row)
        sizes = self.sizes(row)
        per_byte, per_message = self._alone
        unsure = (per_byte * throughput - per_message * rate) * self.cost.unsure
        return Pieces(table.names, sizes, unsure, throughput, movable, bound)

    @cached_property
    def takers(self) -> Callable[[str, int], Bools]:
        """Bundle, source row → bool[n]: the brokers that may take the bundle, however many bundles
        they serve; each is asked once.
        """
        return cache(self._allowed)

    def _allowed(self, bundle: str, source: int) -> Bools:
        even, takers = self.view.even, self.view.takers
        if even is not None:
            takers = even.takers
        allowed = np.ones(len(self.names), dtype=bool)
        if takers is not None:
            names = set(takers(bundle, self.names[source]))
            allowed = np.array([name in names for name in self.names], dtype=bool)
        if bundle in self._returning:
            allowed &= np.array([(bundle, name) not in self.left for name in self.names])
        return allowed

    @cached_property
    def _returning(self) -> frozenset[str]:
        return frozenset(bundle for bundle, _ in self.left)

    def _numbers(self, namespace: str) -> Ints:
        assert self.view.even is not None
        count = self.view.even.count
        return np.array([count(namespace, name) for name in self.names], dtype=np.int64)


def _sum(sizes: Floats) -> float:
    """Sorted, because the order of the bundles must not change a sum."""
    return float(np.sort(sizes).sum())

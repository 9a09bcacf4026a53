"""A running modelled cluster: the measurements of its brokers per statistics period, and changes of
its bundles.
"""

from collections.abc import Sequence

import numpy as np

from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.demand import Demand, Part
from pulsar_rebalancer.lab.simulation.dispatch_limits.throttled_traffic import Dispatching, Presence
from pulsar_rebalancer.lab.simulation.machine_usage import FULL, Fleet
from pulsar_rebalancer.lab.simulation.noise import Chance
from strategies.bundles import Floats, Ints, parse_bundle

NO_BROKER = -1
_EVER_S = -1e12


class Ownership:
    """Columns, one row per bundle: `owner`, `before` (previous owner), `down_s` (time it left that
    one), `up_s` (start of service).

    `order`: int64[bundles], the order in which brokers list their bundles: that of their assignment
    if given, otherwise by row.
    """

    def __init__(self, owner: Ints, order: Ints | None = None) -> None:
        self.owner = owner.copy()
        self._as_taken_over = order is not None
        self.order: Ints = np.arange(len(owner)) if order is None else order
        self.before = np.full(len(owner), NO_BROKER, dtype=np.int64)
        self.down_s = np.full(len(owner), _EVER_S)
        self.up_s = np.full(len(owner), _EVER_S)

    def move(self, row: int, destination: int, down_s: float, up_s: float) -> None:
        """Moves a bundle: it leaves its owner at `down_s`, and `destination` serves it from `up_s`
        on.
        """
        self.before[row], self.owner[row] = self.owner[row], destination
        self.down_s[row], self.up_s[row] = down_s, up_s
        if self._as_taken_over:
            self.order = np.append(self.order[self.order != row], row)

    def split(self, row: int) -> int:
        """Adds a bundle on the same broker; returns its row."""
        for name in ("owner", "before", "down_s", "up_s"):
            column = getattr(self, name)
            setattr(self, name, np.append(column, column[row]))
        self.order = np.append(self.order, len(self.order))
        return len(self.owner) - 1

    def presence(self, begin_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
        """float64[bundles] twice: the part of its window (float64[brokers]) in which the owner, and
        the previous owner, served a bundle.
        """
        owner, before = self.owner, self.before
        end, begin = end_s[owner], begin_s[owner]
        now = np.clip((end - self.up_s) / (end - begin), 0.0, 1.0)
        once = before != NO_BROKER
        earlier_end, earlier_begin = end_s[before], begin_s[before]
        was = np.where(
            once,
            np.clip((self.down_s - earlier_begin) / (earlier_end - earlier_begin), 0.0, 1.0),
            0.0,
        )
        return np.where(owner == NO_BROKER, 0.0, now), was

    def listed(self, end_s: Floats) -> Ints:
        """int64[bundles]: the broker whose report of that time (float64[brokers]) lists a bundle,
        or NO_BROKER.
        """
        mine = (self.owner != NO_BROKER) & (self.up_s <= end_s[self.owner])
        theirs = (self.before != NO_BROKER) & (self.down_s > end_s[self.before])
        return np.where(mine, self.owner, np.where(theirs, self.before, NO_BROKER))


class World:
    """Brokers, bundles and their traffic at one point of virtual time.

    `present`: bool[brokers]. Last measurement: `sampled` float64[4, bundles], `totals` float64[4,
    brokers], `cpu` (percent) float64[brokers], `listed` int64[bundles] (broker whose report lists
    the bundle).
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        fleet: Fleet,
        demand: Demand,
        ownership: Ownership,
        chance: Chance,
        lag_s: Floats | None = None,
        dispatching: Dispatching | None = None,
        catch_up: float = 1.0,
        costs: Floats | None = None,
    ) -> None:
        """`names`: of the bundles, one per row. `lag_s`: float64[brokers], time between a broker's
        measurement and the round; None: all brokers measure at the round, and the next figures show
        the whole effect of a move. `catch_up`: factor by which consumers read a backlog faster than
        usual. `costs`: float64[bundles], factor by which a bundle uses more CPU than its traffic
        shows; None: 1 for all.
        """
        self.fleet, self.demand, self.ownership = fleet, demand, ownership
        self.dispatching, self.chance, self._catch_up_times = dispatching, chance, catch_up
        self.names = list(names)
        brokers, bundles = len(self.fleet.names), len(self.names)
        self.costs = np.ones(bundles) if costs is None else costs
        self._at_once = lag_s is None
        self.lag_s = np.zeros(brokers) if lag_s is None else lag_s
        self.present = self.fleet.joins_s == 0
        self.backlog, self.foreign = np.zeros(bundles), np.zeros(brokers)
        self.sampled, self.totals = np.zeros((4, bundles)), np.zeros((4, brokers))
        self.cpu = np.zeros(brokers)
        self.listed: Ints = np.full(bundles, NO_BROKER)
        self._measured_s = -PERIOD_S

    def measure(self, now_s: float) -> None:
        """Measures the next statistics period of each broker, which ends shortly before `now_s`."""
        self._measured_s = now_s
        self.demand.at(now_s)
        end = now_s - self.lag_s
        begin = end - PERIOD_S
        parts = self.demand.parts(begin, end, np.maximum(self.ownership.owner, 0))
        factors = self.chance.traffic(len(self.names))
        now, was = self.ownership.presence(begin, end)
        wanted = self.chance.reported(self.demand.together(parts) * factors)
        if self.dispatching is None:
            self._catch_up(wanted)
            earlier = wanted
        else:
            there = Presence(self.ownership.owner, self.ownership.before, now, was, end)
            wanted, earlier = self._dispatched(self.dispatching, wanted, parts, factors, there)
        kept = self._kept_by_ceiling(wanted, earlier, now, was)
        self.listed = self.ownership.listed(end)
        here = self.listed == self.ownership.owner
        served = (
            wanted[:4].copy()
            if self.dispatching is None
            else np.where(here, wanted[:4], earlier[:4])
        )
        served[1] *= kept
        served[3] *= kept
        self.sampled = served * np.where(here, now, 1.0)
        self.totals = self._summed(self.listed, self.sampled)

    def lasting(self, now_s: float) -> tuple[Floats, Floats]:
        """Usage (fraction, float64[brokers]) and traffic (float64[4, bundles]) without noise,
        transients and after-effects of moves.
        """
        now = np.full(len(self.present), now_s)
        traffic = self.demand.between(
            now - PERIOD_S, now, np.maximum(self.ownership.owner, 0), lasting=True
        )[:4]
        if self.dispatching is not None:
            traffic[[1, 3]] = np.minimum(traffic[[1, 3]], self.dispatching.held)
        owner = self.ownership.owner
        costly = self._summed(owner, traffic * self.costs)
        usage = self.fleet.usage(self._summed(owner, traffic), costly)
        return np.where(self.present, usage, np.nan), traffic

    def rows_of(self, broker: int) -> Ints:
        """Rows of the bundles that a broker owns."""
        return np.flatnonzero(self.ownership.owner == broker)

    def move(self, row: int, destination: int, down_s: float, up_s: float) -> None:
        """Moves a bundle: it leaves its owner at `down_s`, and `destination` serves it from `up_s`
        on.
        """
        if self._at_once:
            down_s = up_s = self._measured_s
        self.ownership.move(row, destination, down_s, up_s)

    def split(self, row: int, middle: int) -> tuple[str, str]:
        """Splits a bundle at the hash `middle` into two on the same broker; returns their names.
        KeyError if it cannot be split.
        """
        parsed = parse_bundle(self.names[row])
        if parsed is None or not parsed[1].inside(middle):
            raise KeyError(self.names[row])
        namespace, range_ = parsed
        low, high = range_.parts((middle,))
        self.demand.split(row, (high.upper - high.lower) / (range_.upper - range_.lower))
        self.ownership.split(row)
        self.chance.split()
        self.backlog = np.append(self.backlog, 0.0)
        self.costs = np.append(self.costs, self.costs[row])
        if self.dispatching is not None:
            self.dispatching.split()
        self.names[row] = f"{namespace}/{low}"
        self.names.append(f"{namespace}/{high}")
        return self.names[row], self.names[-1]

    def _catch_up(self, wanted: Floats) -> None:
        """Lets connected consumers read the backlog, within limits; the rest stays."""
        read, owed = wanted[1], wanted[4]
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(read > 0, self.backlog / PERIOD_S / read, 0.0)
        factor = 1.0 + np.minimum(left, self._catch_up_times - 1.0)
        self.backlog = np.maximum(self.backlog + (owed - read * factor) * PERIOD_S, 0.0)
        wanted[1] *= factor
        wanted[3] *= factor

    def _dispatched(
        self,
        limits: Dispatching,
        wanted: Floats,
        parts: Sequence[Part],
        factors: Floats,
        there: Presence,
    ) -> tuple[Floats, Floats]:
        """The demand on the owner and on the previous broker, as far as dispatch limits allow
        it.
        """
        mine, theirs = limits.serve(parts, factors, self._catch_up_times, there)
        earlier = wanted.copy()
        wanted[[1, 3]], earlier[[1, 3]] = mine, theirs
        return wanted, earlier

    def _kept_by_ceiling(self, wanted: Floats, earlier: Floats, now: Floats, was: Floats) -> Floats:
        """float64[bundles]: the part that is sent, less than 1 on a broker at its ceiling. Sets CPU
        and backlog as well.
        """
        carried = self._summed(
            self.ownership.owner, wanted[:4] * (now * self.costs)
        ) + self._summed(self.ownership.before, earlier[:4] * (was * self.costs))
        part = self.fleet.sent(carried, self.foreign)
        kept = part[np.maximum(self.ownership.owner, 0)]
        if self.dispatching is None:
            self.backlog = self.backlog + wanted[1] * (1.0 - kept) * now * PERIOD_S
        else:
            self.dispatching.unsent(1.0 - kept, now * PERIOD_S)
            self.backlog = self.dispatching.backlog.sum(axis=0)
        out = carried[1] * (1.0 - part), carried[3] * (1.0 - part)
        busy = self.fleet.cpu(carried[0] + carried[1] - out[0], carried[2] + carried[3] - out[1])
        self.cpu = np.clip(self.chance.cpu(busy + self.foreign), 0.0, FULL)
        return np.asarray(kept, dtype=np.float64)

    def _summed(self, owner: Ints, traffic: Floats) -> Floats:
        """float64[4, brokers]: sums over each broker's bundles, in the order in which it lists
        them.
        """
        rows = self.ownership.order[owner[self.ownership.order] != NO_BROKER]
        return np.stack(
            [
                np.bincount(owner[rows], column[rows], minlength=len(self.present))
                for column in traffic
            ]
        )

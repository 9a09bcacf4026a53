"""A drawn cluster while it runs: what its brokers measure in their statistics periods, and what is done to it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rebalancer.simulation.demand import Demand, Part, demand_of
from rebalancer.simulation.dispatching import Dispatching, Presence, limits_of
from rebalancer.simulation.fleet import Fleet, fleet_of
from rebalancer.simulation.initial_owners import deal
from rebalancer.simulation.noise import Stream, Wander
from rebalancer.simulation.ownership import NOBODY, Possession
from rebalancer.simulation.scenarios.schema import Scenario
from strategies.bundles.bundle_loads import Floats, Ints
from strategies.bundles.ranges import KeyRange, initial_boundaries, parse_bundle

#: Statistics period of a stock broker (statsUpdateFrequencyInSecs), which is also how often its CPU is measured.
PERIOD_S = 60.0
_FULL = 100.0


class World:
    """Brokers, bundles and their traffic at one instant of virtual time; everything that is left to chance is drawn from the seed.

    `present`: bool[brokers]. What was measured last: `sampled` float64[4, bundles], `totals` float64[4, brokers], `cpu` (percent)
    float64[brokers], `listed` int64[bundles] (whose report names the bundle).
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        chance = {purpose: Stream(seed, number) for number, purpose in enumerate(("fleet", "demand", "deal", "phase", "noise", "client"))}
        self.scenario = scenario
        self.fleet: Fleet = fleet_of(scenario, chance["fleet"])
        self.demand: Demand = demand_of(scenario, chance["demand"])
        self.dispatching = limits_of(scenario, self.fleet, self.demand, PERIOD_S)
        self.present = self.fleet.joins_s == 0
        count = len(self.fleet.names)
        begin, end = np.full(count, -PERIOD_S), np.zeros(count)
        first = self.demand.between(begin, end, np.zeros(scenario.bundles, dtype=np.int64))
        self.possession = Possession(deal(scenario, first, self.fleet, chance["deal"]))
        self.names = [name for namespace, rows in scenario.places.items() for name in _names(namespace, len(rows))]
        #: Brokers do not measure at the same moment: so long before a round each of them did.
        self.lag_s = chance["phase"].uniform(count) * (PERIOD_S - 1.0)
        self._noise, self.clients = chance["noise"], chance["client"]
        told = scenario.noise
        self._wander = Wander(self._noise, scenario.bundles, told.wander, told.wander_minutes)
        self._cpu_wander = Wander(self._noise, count, told.cpu_wander_points, told.wander_minutes)
        self.backlog = np.zeros(scenario.bundles)
        self.foreign = np.zeros(count)
        self.sampled = np.zeros((4, scenario.bundles))
        self.totals, self.cpu = np.zeros((4, count)), np.zeros(count)
        self.listed: Ints = np.full(scenario.bundles, NOBODY)

    def measure(self, now_s: float) -> None:
        """One more statistics period of every broker, each ending a little before `now_s`."""
        end = now_s - self.lag_s
        begin = end - PERIOD_S
        parts = self.demand.parts(begin, end, np.maximum(self.possession.owner, 0))
        chance = self._chance_of_bundles()
        now, was = self.possession.presence(begin, end)
        wanted = self.demand.together(parts) * chance
        if self.dispatching is None:
            self._catch_up(wanted)
            earlier = wanted
        else:
            there = Presence(self.possession.owner, self.possession.before, now, was, end)
            wanted, earlier = self._dispatched(self.dispatching, wanted, parts, chance, there)
        kept = self._kept_by_ceiling(wanted, earlier, now, was)
        self.listed = self.possession.listed(end)
        here = self.listed == self.possession.owner
        served = wanted[:4].copy() if self.dispatching is None else np.where(here, wanted[:4], earlier[:4])
        served[1] *= kept
        served[3] *= kept
        self.sampled = served * np.where(here, now, 1.0)
        rows = self.listed != NOBODY
        self.totals = self._summed(self.listed[rows], self.sampled[:, rows])

    def lasting(self, now_s: float) -> tuple[Floats, Floats]:
        """Usage (fraction, float64[brokers]) and traffic (float64[4, bundles]) without noise, transients and what a move leaves behind."""
        now = np.full(len(self.present), now_s)
        traffic = self.demand.between(now - PERIOD_S, now, np.maximum(self.possession.owner, 0), lasting=True)[:4]
        if self.dispatching is not None:
            traffic[[1, 3]] = np.minimum(traffic[[1, 3]], self.dispatching.held)
        rows = self.possession.owner != NOBODY
        usage = self.fleet.usage(self._summed(self.possession.owner[rows], traffic[:, rows]))
        return np.where(self.present, usage, np.nan), traffic

    def rows_of(self, broker: int) -> Ints:
        """Rows of the bundles a broker serves."""
        return np.flatnonzero(self.possession.owner == broker)

    def split(self, row: int, middle: int) -> tuple[str, str]:
        """A bundle becomes two on the same broker, cut at the hash `middle`; the names of both. KeyError for one that cannot be cut."""
        parsed = parse_bundle(self.names[row])
        if parsed is None or not parsed[1].inside(middle):
            raise KeyError(self.names[row])
        namespace, range_ = parsed
        low, high = range_.parts((middle,))
        self.demand.split(row, (high.upper - high.lower) / (range_.upper - range_.lower))
        self.possession.split(row)
        self._wander.grow(1)
        self.backlog = np.append(self.backlog, 0.0)
        if self.dispatching is not None:
            self.dispatching.split()
        self.names[row] = f"{namespace}/{low}"
        self.names.append(f"{namespace}/{high}")
        return self.names[row], self.names[-1]

    def _chance_of_bundles(self) -> Floats:
        self._wander.step()
        white = self.scenario.noise.traffic
        chance = 1.0 + self._wander.now
        return np.maximum(chance + white * self._noise.normal(len(chance)), 0.0) if white else chance

    def _catch_up(self, wanted: Floats) -> None:
        """Consumers that are there read what was left, within limits; what is owed and not read stays."""
        read, owed = wanted[1], wanted[4]
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(read > 0, self.backlog / PERIOD_S / read, 0.0)
        factor = 1.0 + np.minimum(left, self.scenario.catch_up - 1.0)
        self.backlog = np.maximum(self.backlog + (owed - read * factor) * PERIOD_S, 0.0)
        wanted[1] *= factor
        wanted[3] *= factor

    def _dispatched(
        self, limits: Dispatching, wanted: Floats, parts: Sequence[Part], chance: Floats, there: Presence
    ) -> tuple[Floats, Floats]:
        """What is wanted of the owner and of the broker before, as far as dispatch limits let it out."""
        mine, theirs = limits.serve(parts, chance, self.scenario.catch_up, there)
        earlier = wanted.copy()
        wanted[[1, 3]], earlier[[1, 3]] = mine, theirs
        return wanted, earlier

    def _kept_by_ceiling(self, wanted: Floats, earlier: Floats, now: Floats, was: Floats) -> Floats:
        """float64[bundles]: the part that goes out, less than 1 on a broker at its ceiling; CPU and backlog are set on the way."""
        owner, before = np.maximum(self.possession.owner, 0), np.maximum(self.possession.before, 0)
        carried = self._summed(owner, wanted[:4] * now) + self._summed(before, earlier[:4] * was)
        room = np.maximum(_FULL - self.foreign, 1.0)
        demand = self.fleet.cpu(carried[0] + carried[1], carried[2] + carried[3])
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.minimum(1.0, np.where(demand > room, room / demand, 1.0))
        kept = part[owner]
        if self.dispatching is None:
            self.backlog = self.backlog + wanted[1] * (1.0 - kept) * now * PERIOD_S
        else:
            self.dispatching.unsent(1.0 - kept, now * PERIOD_S)
            self.backlog = self.dispatching.backlog.sum(axis=0)
        out = carried[1] * (1.0 - part), carried[3] * (1.0 - part)
        busy = self.fleet.cpu(carried[0] + carried[1] - out[0], carried[2] + carried[3] - out[1])
        self.cpu = np.clip(busy + self.foreign + self._chance_of_cpu(), 0.0, _FULL)
        return np.asarray(kept, dtype=np.float64)

    def _chance_of_cpu(self) -> Floats:
        told = self.scenario.noise
        self._cpu_wander.step()
        count = len(self.present)
        chance = self._cpu_wander.now + (told.cpu_points * self._noise.normal(count) if told.cpu_points else 0.0)
        if told.spikes_a_day:
            hit = self._noise.uniform(count) < told.spikes_a_day * PERIOD_S / 86_400.0
            chance = chance + hit * told.spike_points
        return np.asarray(chance, dtype=np.float64)

    def _summed(self, owner: Ints, traffic: Floats) -> Floats:
        count = len(self.present)
        return np.stack([np.bincount(owner, column, minlength=count) for column in traffic])


def _names(namespace: str, bundles: int) -> Sequence[str]:
    bounds = initial_boundaries(bundles)
    return [f"{namespace}/{KeyRange(low, high)}" for low, high in pairwise(bounds)]

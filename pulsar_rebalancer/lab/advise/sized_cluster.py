"""A recorded cluster in units of load: what each bundle costs, what each broker can carry, and by
how much that may be wrong. The costs are those that SteadyShedder learns.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pulsar_rebalancer.lab.advise.packing import PackingProblem
from pulsar_rebalancer.lab.advise.recorded_loads import REST, RecordedLoads
from strategies.bundles import Bools, Floats, Ints, is_system_bundle, namespace_of
from strategies.filters.anti_affinity import group_members
from strategies.filters.filter_input_and_result import FilteredBundle, FilterFacts
from strategies.filters.filter_order_and_settings import Filters
from strategies.filters.policies import PoliciesView, read_policies
from strategies.round.round_input_and_digest import Rules
from strategies.shedding.steady.learned_load_cost import (
    HIGHEST_BASE,
    LITTLE,
    SCALE,
    LoadCost,
    learned,
)
from strategies.shedding.steady.load_samples import both_directions
from strategies.shedding.steady.memory_format import LoadHistory

#: Part of the steps, those with the highest load, that brokers need not carry.
LEFT_OUT = 0.01
#: Weight of a sample, so that the prior has none.
_WEIGHT = 1e3
#: Part of the mean by which traffic must deviate to show what it costs.
_VARIED = 0.1
#: A broker with more power than this for its CPU, in medians, measures its usage wrong.
_MOST_POWER = 4.0
#: Shares of bytes in what traffic costs, and usages without traffic, that are compared; those that
#: explain usage as well as the best may be true: up to this usage (fraction), and this many parts
#: of the best one's error by the root of the number of samples, which is what chance makes.
_SHARES, _BASES, _MORE, _CHANCE = 17, 16, 0.002, 2.0
#: Usages without traffic, as parts of each machine, of which one is chosen, and what it must
#: explain, per usage.
_FINE_BASES, _SIMPLER = 61, 0.1
#: Hours from which on days are compared with each other; before, parts of this number are.
_DAYS_FROM, _PARTS = 48.0, 12
#: Sums of bundles × brokers × steps that a plan may take; longer windows have coarser steps.
_WORK = 4_000_000


@dataclass(frozen=True, eq=False)
class SizedCluster:
    """`sizes`: float64[bundles, steps], load of bundles that may move; `names`, `owners` (row in
    `brokers`, -1 for none), `topics`, `received` (bytes/s in at the 99th percentile), `divisible`
    (any part may be anywhere), `dear` (factor by which it may cost more): of these bundles.
    `power`: load per usage of each broker; `sure`: the least that it may be; `idle`: load of each
    without bundles that may move. `per_received`: load per byte/s in. `growth`: factor by which
    load may rise; `unsure`: usage (fraction) that traffic does not explain; `total`: float64[all
    steps], all load.
    """

    names: tuple[str, ...]
    sizes: Floats
    owners: Ints
    topics: Ints
    received: Floats
    divisible: Bools
    dear: Floats
    brokers: tuple[str, ...]
    power: Floats
    sure: Floats
    idle: Floats
    per_received: float
    growth: float
    unsure: float
    total: Floats
    filters: Filters
    policies: PoliciesView

    @cached_property
    def with_margin(self) -> "SizedCluster":
        """With load that has grown, bundles that cost the most that they may, and brokers with the
        least power that they may have.
        """
        return replace(
            self,
            sizes=self.sizes * (self.growth * self.dear[:, None]),
            power=self.sure,
            idle=self.idle - self.idle.min(),
        )

    @cached_property
    def has_policies(self) -> bool:
        return bool(self.policies.isolation or self.policies.brokers)

    @cached_property
    def compares(self) -> bool:
        """Whether a filter compares what brokers serve: groups, numbers of bundles or topics."""
        grouped = (group_members(self.policies.groups, namespace_of(one)) for one in self.names)
        crowded = int(self.topics.sum()) > self.filters.settings.max_topics
        return crowded or self.filters.distributes_evenly or any(grouped)

    def grown(self, count: int) -> "SizedCluster":
        """The cluster with this number of brokers more, of median power."""
        added = tuple(f"new-{number + 1}:8080" for number in range(count))
        power = np.append(self.power, np.full(count, np.median(self.power)))
        return replace(
            self,
            brokers=self.brokers + added,
            power=power,
            idle=np.append(self.idle, np.full(count, np.median(self.idle))),
        )

    def demand(
        self, bundles: Ints, brokers: Sequence[int], kept: Ints, at_most: float
    ) -> PackingProblem:
        """Bundles that some brokers may take up to a usage (fraction). `kept`: int64[all bundles],
        rows of the brokers of those that stay, -1 for others.
        """
        load = np.tile(self.idle[:, None], self.sizes.shape[1])
        np.add.at(load, kept[kept >= 0], self.sizes[kept >= 0])
        some = list(brokers)
        room = np.maximum(at_most * self.power[some], 1e-12)
        return PackingProblem(
            self.sizes[bundles],
            load[some],
            room,
            self._takers(bundles, some, kept),
            self.compares,
        )

    def _takers(
        self, bundles: Ints, brokers: Sequence[int], kept: Ints
    ) -> Callable[[int, Ints], Bools]:
        names, known = [self.brokers[row] for row in brokers], dict[str, Bools]()
        filtered = self.has_policies or self.compares

        def allowed(at: int, owners: Ints) -> Bools:
            bundle = self.names[bundles[at]]
            space = namespace_of(bundle)
            if space not in known or self.compares:
                rows = kept.copy()
                rows[bundles] = np.array([*brokers, -1])[owners]
                rows[bundles[at]] = -1
                found = self._allowed(bundle, names, rows) if filtered else names
                known[space] = np.array([name in found for name in names])
            return known[space]

        return allowed

    def _allowed(self, bundle: str, brokers: Sequence[str], owners: Ints) -> Sequence[str]:
        """The brokers that filters allow with these owners of the other bundles."""
        served, topics = defaultdict[str, Counter[str]](Counter), Counter[str]()
        for row in np.flatnonzero(owners >= 0).tolist() if self.compares else ():
            served[self.brokers[owners[row]]][namespace_of(self.names[row])] += 1
            topics[self.brokers[owners[row]]] += int(self.topics[row])
        facts = FilterFacts(
            self.policies,
            served.__getitem__,
            topics.__getitem__,
            lambda namespace, broker: served[broker][namespace],
        )
        return self.filters.allowed(FilteredBundle(bundle), brokers, facts).brokers


def sized(recorded: RecordedLoads, rules: Rules, at_most: float) -> SizedCluster:
    """The recorded cluster in units of load. Rare peaks of a bundle that bring any broker above
    `at_most` are left out: no placement changes them.
    """
    (cost, *others), power, sure, idle, unsure = _learned(recorded, at_most)
    throughput, rate = both_directions(recorded.traffic.reshape(-1, 4))
    loads = cost.of(throughput, rate).reshape(recorded.traffic.shape[:2])
    sums = both_directions(recorded.traffic.sum(axis=0))
    costs = np.array([one.of(*sums) for one in (cost, *others)])
    own = np.array([is_system_bundle(name) for name in recorded.bundles], dtype=bool)
    np.add.at(idle, recorded.owners[own], loads[:, own].max(axis=0))
    total, growth = loads.sum(axis=1), growth_of(loads.sum(axis=1), recorded.hours)
    usual, peak = (
        np.quantile(one, 1 - LEFT_OUT, axis=0, method="higher") for one in (loads, total)
    )
    rare = loads.max(axis=0) * growth > (at_most * power - idle[:-1]).max()
    loads = np.where(rare, np.minimum(loads, usual), loads)
    rest = np.array([name.endswith(REST) for name in recorded.bundles], dtype=bool)
    rows = np.flatnonzero(~own & ~(rest & ~loads.any(axis=0)))
    taken_in = recorded.traffic[:, rows, 2]
    return SizedCluster(
        tuple(np.array([*recorded.bundles])[rows].tolist()),
        _coarse(loads[total <= peak][:, rows].T, len(recorded.brokers)),
        recorded.owners[rows],
        recorded.topics[rows],
        np.quantile(taken_in, 1 - LEFT_OUT, axis=0, method="higher"),
        rest[rows],
        np.max(costs / np.maximum(costs[0], 1e-12), axis=0)[rows],
        recorded.brokers,
        power,
        sure,
        idle[:-1],
        float(loads[:, rows].sum() / max(taken_in.sum(), 1.0)),
        growth,
        unsure,
        total,
        rules.destinations.filters,
        replace(read_policies(recorded.policies), by_id=rules.isolation_by_id),
    )


def _learned(
    recorded: RecordedLoads, at_most: float
) -> tuple[list[LoadCost], Floats, Floats, Floats, float]:
    """The cost of traffic, and others that may be true; float64[brokers]: the power of each broker,
    the least that it may be, and its load without traffic, of no broker last; and the standard
    deviation of usage that is not explained.
    """
    # Without traffic, a broker has just started, or what it shows says nothing of traffic; without
    # usage under traffic, it does not measure it.
    rows = [
        one[(one[:, [0, 2]] > 0).all(axis=1)] * [1, 1, 1, _WEIGHT, 1]
        for one in (np.reshape(recorded.shown[name], (-1, 5)) for name in recorded.brokers)
    ]
    every, at = np.concatenate(rows), np.repeat(np.arange(len(rows)), [*map(len, rows)])
    cpu = np.array([recorded.cpu.get(name, 0.0) for name in recorded.brokers])
    by_cpu = np.where(cpu > 0, cpu / np.median(cpu[cpu > 0]), 1.0) if cpu.any() else cpu + 1.0
    # Without traffic, brokers use the same load, the same part of their machines, or some of both:
    # what leaves least to speeds that no report shows.
    _, base, cost, powers, unsure = min(
        (
            _explained(recorded, every, at, by_cpu, base)
            for base in np.linspace(0.0, HIGHEST_BASE, _FINE_BASES).tolist()
        ),
        key=lambda one: one[0],
    )
    usual = by_cpu * np.median(powers / by_cpu)
    power = np.where(powers > _MOST_POWER * usual, usual, powers)
    others = _others(cost, every, at, by_cpu, at_most)
    idle = cost.base + base * power
    sure = np.min([power - idle / at_most, *(one for _, one in others)], axis=0)
    return [cost, *(one for one, _ in others)], power, sure, np.append(idle, 0.0), unsure


def _explained(
    recorded: RecordedLoads, every: Floats, at: Ints, by_cpu: Floats, base: float
) -> tuple[float, float, LoadCost, Floats, float]:
    """The cost of traffic if each machine has this usage without it, `base`, besides the one that
    is equal load on all; float64[brokers], their powers, which explain what they show on average;
    and the standard deviation of usage that is not explained. Before these, what remains: the
    difference of speeds and this deviation.
    """
    beyond = np.maximum(every - [0, 0, base, 0, 0], [0, 0, 1e-6, 0, 0])
    cost = learned(
        {
            name: LoadHistory(packed_levels=beyond[at == row].tobytes())
            for row, name in enumerate(recorded.brokers)
        },
        recorded.cpu,
    )
    if every[:, 0].std() < _VARIED * every[:, 0].mean():
        # Equal traffic shows no base; without one, what brokers carry is not overestimated.
        cost = replace(
            cost, base=0.0, per_byte=float(beyond[:, 2].sum() / every[:, 0].sum()), per_message=0.0
        )
    load = cost.of(every[:, 0], every[:, 1])
    guess = np.array([cost.powers.get(name, 1.0) for name in recorded.brokers])
    some = np.where(load > LITTLE, load, 0.0)
    powers = guess / np.clip(
        _ratios(at, some, beyond[:, 2], (cost.base + load) / guess[at], np.ones(len(guess))), *SCALE
    )
    # The median of distances, in standard deviations: some samples show a start.
    unsure = 1.48 * float(np.median(np.abs(beyond[:, 2] - (cost.base + load) / powers[at])))
    return (
        float(np.ptp(np.log(powers / by_cpu)))
        + float((some <= 0).mean())
        + unsure
        + _SIMPLER * base
        + max(0.0, cost.base + base - HIGHEST_BASE),
        base,
        cost,
        powers,
        unsure,
    )


def _others(
    cost: LoadCost, every: Floats, at: Ints, by_cpu: Floats, at_most: float
) -> list[tuple[LoadCost, Floats]]:
    """Other costs that explain the samples about as well where each broker has a power of its own,
    each with float64[brokers]: the power that brings a broker to the limit under as much load if
    all its usage is of load. `at`: int64[samples], their brokers.
    """
    found = list[tuple[float, LoadCost, Floats]]()
    units = cost.of(every[:, 0], every[:, 1]).sum() / np.maximum(every[:, :2].sum(axis=0), 1e-12)
    for share in np.linspace(0.0, 1.0, _SHARES):
        one = replace(cost, per_byte=share * units[0], per_message=(1.0 - share) * units[1])
        load = one.of(every[:, 0], every[:, 1])
        for base in np.linspace(0.0, HIGHEST_BASE, _BASES):
            beyond = np.maximum(every[:, 2] - base, 1e-6)
            some = np.where(load > LITTLE * load.sum() / beyond.sum(), load, 0.0)
            own = _ratios(at, some, load, beyond, np.zeros(len(by_cpu)))
            # Without load shown, it may be slower than the slowest, by as much as others differ.
            speeds = own / by_cpu
            own = np.where(
                own > 0,
                own,
                by_cpu
                * np.square(speeds.min(where=own > 0, initial=np.inf))
                / max(speeds.max(), 1e-12),
            )
            errors = (beyond - load / own[at])[some > 0]
            found.append(
                (
                    float(np.linalg.norm(errors) / np.sqrt(max(1, len(errors)))),
                    one,
                    own * max(0.0, 1.0 - base / at_most),
                )
            )
    least = min(error for error, _, _ in found) * (1.0 + _CHANCE / np.sqrt(max(1, len(every))))
    return [(one, own) for error, one, own in found if error <= np.hypot(least, _MORE)]


def _ratios(at: Ints, weight: Floats, shown: Floats, other: Floats, default: Floats) -> Floats:
    """float64[brokers]: shown ÷ other in their samples, weighted, or the default without any."""
    sums = [np.bincount(at, weight * one, len(default)) for one in (shown, other)]
    return np.where(sums[1] > 0, sums[0] / np.maximum(sums[1], 1e-12), default)


def growth_of(total: Floats, hours: float) -> float:
    """Factor by which the load may rise above the highest: to what it was last, plus as much as it
    has ranged. Of means of parts, or of the peaks of days, where several were recorded.
    """
    days = hours >= _DAYS_FROM
    parts = np.array_split(total, round(hours / 24) if days else min(_PARTS, len(total)))
    series = np.array([one.max() if days else one.mean() for one in parts])
    return 1.0 + float(series[-1] - series.min()) / max(float(series.max()), 1e-12)


def _coarse(sizes: Floats, brokers: int) -> Floats:
    """float64[bundles, fewer steps]: the highest load of several steps, where there are too many;
    equal steps once.
    """
    most = max(24, _WORK // max(1, sizes.shape[0] * brokers))
    if sizes.shape[1] > most:
        parts = np.linspace(0, sizes.shape[1], most, endpoint=False).astype(np.int64)
        sizes = np.maximum.reduceat(sizes, parts, axis=1)
    return np.unique(sizes, axis=1)

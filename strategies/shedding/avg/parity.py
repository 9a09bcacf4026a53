"""AvgShedder exactly as Pulsar runs it: ties, hit counters that look-ups create, and a plan by the
averages of a bundle (4.2) or by its name (5.0).

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` of Pulsar 4.2.4 and
5.0.1. Memory: hit counts per broker (kept for brokers that are gone, as in Java), the plan, and the
size of the score table. The plan of 5.0 lives for one round. The repaired rule is in `fixed`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from strategies.bundles import BundleLoads, Floats
from strategies.cluster.model import ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import ClusterMemory, Memory
from strategies.figures.usage import weighted_usages
from strategies.java.hash_order import INITIAL_TABLE, copied_order, double_keys, hash_map_order
from strategies.settings import Weights
from strategies.shedding.avg import reason_texts as texts
from strategies.shedding.avg.broker_pairs import BrokerPair, HitCounters, Hits, Ranking, need_of
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.broker_memory import hit_counts, with_hit_counts
from strategies.shedding.candidates import JavaTies, that_fit
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import gathered

_SCORES = "avg-scores"
#: Maximum size of the plan. Java never removes a planned destination. No round reads an old one, so
#: the oldest entries are dropped.
_PLANNED_AT_MOST = 100_000


def plan_key(
    short: Floats, long: Floats, short_samples: int, long_samples: int, topics: int
) -> str:
    """The key of a bundle in the plan: the value of its averages, so equal bundles share one entry
    (`BundleData.equals`).
    """
    averages = np.concatenate([short, long])
    averages = np.where(np.isnan(averages), np.nan, averages).astype("<f8")
    counts = np.array([short_samples, long_samples, topics], dtype="<i8")
    return blake2b(averages.tobytes() + counts.tobytes(), digest_size=16).hexdigest()


def with_planned(cluster: ClusterMemory, planned: Mapping[str, str]) -> ClusterMemory:
    """Memory with more destinations in the plan."""
    merged = {**cluster.planned, **planned}
    if len(merged) > _PLANNED_AT_MOST:
        merged = dict(list(merged.items())[-_PLANNED_AT_MOST:])
    return replace(cluster, planned=merged)


@dataclass(frozen=True)
class ParityAvgShedder:
    """Pairs brokers from both ends of the score list and moves a part of the traffic difference
    when a pair was hit often enough.
    """

    settings: AvgSettings
    weights: Weights
    #: The plan of Pulsar 5.0; otherwise that of 4.2.
    by_name: bool = False

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; each decision's destination is the one in the final plan."""
        ranking, size = self._ranked(view, memory.cluster.table_sizes.get(_SCORES, INITIAL_TABLE))
        counters = HitCounters(*hit_counts(memory))
        pairs, near = self._pairs(ranking, counters)
        skips = texts.close_together(ranking, near, self.settings)
        if not pairs:
            counters = HitCounters({}, {})
        counted = [(pair, counters.look_up(pair)) for pair in pairs]
        together = texts.many_waiting(
            [one for one in counted if not one[1].fires(self.settings)], self.settings
        )
        picks, more = self._move(counted, counters, view, spelled_out=not together)
        planned = {key: decision.destination or "" for decision, key in picks}
        cluster = _remembered(memory.cluster, {} if self.by_name else planned, size)
        remembered = with_hit_counts(Memory(memory.brokers, cluster), counters.high, counters.low)
        shared = "a bundle with the same averages"
        if self.by_name:
            # Of a bundle that two brokers report, the last pick counts.
            plan = {key: (one.source, one.destination or "") for one, key in picks}
            remembered = replace(remembered, plan=plan)
            shared = "the bundle as another broker's"
        return Shedding(
            _as_executed(picks, planned, shared),
            (*gathered([*skips, *more]), *together),
            remembered,
        )

    def _ranked(self, view: ClusterView, table_size: int) -> tuple[Ranking, int]:
        """Brokers by score, and the size of the score map. Equal brokers are in the order of that
        map, filled in the broker map's order.
        """
        order, size = copied_order([broker.broker for broker in view.brokers], table_size)
        scores = (
            weighted_usages([broker.figures for broker in view.brokers], self.weights)[order] * 100
        )
        by_score = np.argsort(double_keys(scores), kind="stable")
        return Ranking(
            [view.brokers[index] for index in order[by_score].tolist()], scores[by_score]
        ), size

    def _pairs(self, ranking: Ranking, counters: HitCounters) -> tuple[list[BrokerPair], list[int]]:
        """Counts hits; returns pairs that are too far apart, and the positions of the other
        pairs.
        """
        is_near = ranking.differences < self.settings.low_threshold
        near = np.flatnonzero(is_near).tolist()
        if counters.high or counters.low:
            counters.forget(*ranking.names(near))
        kept = [ranking.pair(position) for position in np.flatnonzero(~is_near).tolist()]
        for pair in kept:
            counters.hit(pair, urgent=not pair.difference < self.settings.high_threshold)
        return kept, near

    def _move(
        self,
        counted: list[tuple[BrokerPair, Hits]],
        counters: HitCounters,
        view: ClusterView,
        *,
        spelled_out: bool,
    ) -> tuple[list[tuple[Decision, str]], list[Skip]]:
        ties = JavaTies(view)
        picks: list[tuple[Decision, str]] = []
        skips: list[Skip] = []
        for pair, hits in counted:
            if not hits.fires(self.settings):
                skips += [texts.waiting_for_hits(pair, hits, self.settings)] if spelled_out else []
                continue
            counters.forget(pair.under.broker, pair.over.broker)
            leaving, staying = self._relieve(pair, hits, ties)
            picks += leaving
            skips += staying
        return picks, skips

    def _relieve(
        self, pair: BrokerPair, hits: Hits, ties: JavaTies
    ) -> tuple[list[tuple[Decision, str]], list[Skip]]:
        """Bundles that leave, each with its key in the plan. A broker's only bundle may leave too,
        as Java only logs a warning.
        """
        need = need_of(pair, self.settings)
        if need is None:
            return [], [texts.too_little_traffic(pair, self.settings)]
        picker, why = that_fit(need.amount), ("does-not-fit", texts.rest(need))
        picks, skips = ties.pick(pair.over, need.metric, picker, why)
        leaving = [
            (
                texts.transfer(one, pair=pair, hits=hits, need=need, settings=self.settings),
                one.bundle if self.by_name else _key(pair.over.bundles, one.row),
            )
            for one in picks
        ]
        return leaving, skips if leaving else [texts.nothing_fits(pair, need), *skips]


def parity_50(settings: AvgSettings, weights: Weights) -> ParityAvgShedder:
    """The rule of Pulsar 5.0."""
    return ParityAvgShedder(settings, weights, by_name=True)


def _key(loads: BundleLoads, row: int) -> str:
    samples = int(loads.short_samples[row]), int(loads.long_samples[row])
    return plan_key(loads.short[row], loads.long[row], *samples, int(loads.topics[row]))


def _as_executed(
    picks: list[tuple[Decision, str]], planned: Mapping[str, str], shared: str
) -> tuple[Decision, ...]:
    """Source brokers in the order of a new result multimap; of picks with one entry in the plan,
    the last one's destination counts for all. `shared`: what these have in common.
    """
    sources = list(dict.fromkeys(decision.source for decision, _ in picks))
    order, _ = hash_map_order(sources)
    rank = {sources[index]: position for position, index in enumerate(order.tolist())}
    decided = [
        decision
        if decision.destination == planned[key]
        else _sent_elsewhere(decision, planned[key], shared)
        for decision, key in picks
    ]
    return tuple(sorted(decided, key=lambda decision: rank[decision.source]))


def _sent_elsewhere(decision: Decision, destination: str, shared: str) -> Decision:
    text = f"{decision.text}, or rather to {destination}, where {shared} is sent"
    return replace(decision, destination=destination, text=text)


def _remembered(cluster: ClusterMemory, planned: Mapping[str, str], size: int) -> ClusterMemory:
    if planned:
        cluster = with_planned(cluster, planned)
    if cluster.table_sizes.get(_SCORES, INITIAL_TABLE) != size:
        cluster = replace(cluster, table_sizes={**cluster.table_sizes, _SCORES: size})
    return cluster

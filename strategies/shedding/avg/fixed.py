"""AvgShedder with its known defects repaired: the fullest broker is paired with the emptiest and
sheds a part of the difference.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` of Pulsar 4.2.4; what is
repaired, and why, is in docs/decisions. Memory: the number of samples in which each broker was in a
pair that is too far apart, and the destinations of the last round's bundles. `parity` is the rule
exactly as in Java.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from strategies.cluster.model import ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import usages_by_name
from strategies.settings import Weights
from strategies.shedding.avg.broker_pairs import BrokerPair, HitCounters, Hits, Ranking, need_of
from strategies.shedding.avg.reason_texts import (
    close_together,
    many_waiting,
    nothing_fits,
    rest,
    sole_bundle,
    too_little_traffic,
    transfer,
    waiting_for_hits,
)
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.broker_memory import hit_counts, with_hit_counts
from strategies.shedding.candidates import (
    candidates,
    column,
    ordinary_bundles,
    pick_by_name,
    picks,
    that_fit,
)
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import comparable, gathered


@dataclass(frozen=True)
class AvgShedder:
    """Pairs brokers from both ends of the score list and moves a part of the traffic difference of
    pairs that stay far apart.
    """

    settings: AvgSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; the pair furthest apart first. The order of brokers and bundles in the view
        does not matter.
        """
        ranking, skips = self._ranked(view)
        counters = HitCounters(*hit_counts(memory))
        near, apart = self._near_and_apart(ranking)
        # Without any counted hits, near pairs have no counts to reset.
        has_counts = counters.high or counters.low
        for pair in [*(map(ranking.pair, near) if has_counts else ()), *apart]:
            self._count(pair, counters, alone=len(ranking.differences) == 1)
        skips += close_together(ranking, near, self.settings)
        decisions = list[Decision]()
        counted = [(pair, counters.hits_of(pair)) for pair in apart]
        together = many_waiting(
            [one for one in counted if not one[1].fires(self.settings)], self.settings
        )
        for pair, hits in counted:
            if not hits.fires(self.settings):
                skips += [] if together else [waiting_for_hits(pair, hits, self.settings)]
                continue
            counters.forget(pair.under.broker, pair.over.broker)
            leaving, staying = self._relieve(
                pair, hits, view, {decision.bundle for decision in decisions}
            )
            decisions += leaving
            skips += staying
        planned = {decision.bundle: decision.destination or "" for decision in decisions}
        kept = Memory(memory.brokers, replace(memory.cluster, planned=planned))
        return Shedding(
            tuple(decisions),
            (*gathered(skips), *together),
            with_hit_counts(kept, counters.high, counters.low),
        )

    def _ranked(self, view: ClusterView) -> tuple[Ranking, list[Skip]]:
        """Brokers by score and name, without those that have no valid figures."""
        brokers, usages = usages_by_name(view.brokers, self.weights)
        scores = usages * 100
        judged, skips = comparable(brokers, scores)
        order = judged[np.argsort(scores[judged], kind="stable")]
        return Ranking([brokers[position] for position in order.tolist()], scores[order]), skips

    def _near_and_apart(self, ranking: Ranking) -> tuple[list[int], list[BrokerPair]]:
        """Positions of the pairs that are near each other, and the pairs that are far apart."""
        is_near = ranking.differences < self.settings.low_threshold
        if len(ranking.brokers) % 2:
            is_near[-1] = True
        return np.flatnonzero(is_near).tolist(), [
            ranking.pair(position) for position in np.flatnonzero(~is_near).tolist()
        ]

    def _count(self, pair: BrokerPair, counters: HitCounters, alone: bool) -> None:
        """Counts the hits of a pair. A hit is a new sample, so a broker with the figures of the
        last round adds none.
        """
        brokers, high, low = (pair.under, pair.over), counters.high, counters.low
        if not any(broker.fresh for broker in brokers) or (alone and pair.under is pair.over):
            return
        close = pair.under is pair.over or pair.difference < self.settings.low_threshold
        urgent = pair.difference >= self.settings.high_threshold
        for broker in brokers:
            if close:
                low.pop(broker.broker, None)
            elif broker.fresh:
                low[broker.broker] = low.get(broker.broker, 0) + 1
            if not urgent:
                high.pop(broker.broker, None)
            elif broker.fresh and not close:
                high[broker.broker] = high.get(broker.broker, 0) + 1

    def _relieve(
        self, pair: BrokerPair, hits: Hits, view: ClusterView, taken: Collection[str]
    ) -> tuple[list[Decision], list[Skip]]:
        need = need_of(pair, self.settings)
        if need is None:
            return [], [too_little_traffic(pair, self.settings)]
        if ordinary_bundles(pair.over) <= 1:
            return [], [sole_bundle(pair)]
        loads = pair.over.bundles
        found, metric = candidates(loads, view, taken), column(loads, need.metric).tolist()
        names = [loads.names[row] for row in found.rows]
        picked = pick_by_name(names, [metric[row] for row in found.rows], that_fit(need.amount))
        chosen, skips = picks(pair.over, found, metric, picked, ("does-not-fit", rest(need)))
        leaving = [
            transfer(one, pair=pair, hits=hits, need=need, settings=self.settings) for one in chosen
        ]
        return leaving, skips if leaving else [nothing_fits(pair, need), *skips]

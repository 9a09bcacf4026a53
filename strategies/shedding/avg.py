"""AvgShedder with its known defects repaired: the fullest broker is paired with the emptiest and hands a part of the difference over.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` of Pulsar 4.2.4; what is repaired, and why, is in
docs/decisions. What it remembers: in how many samples each broker was in a pair that is too far apart, and where the bundles of the
last round were sent. The rule to the letter is in `avg_parity`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import isfinite

from strategies.model import BrokerLoad, ClusterView, Decision, Memory, Shedding, Skip
from strategies.settings import Weights
from strategies.shedding.avg_rule import (
    AvgSettings,
    Hits,
    Pair,
    close_together,
    need_of,
    nothing_fits,
    sole_bundle,
    too_little_traffic,
    transfer,
    waiting_for_hits,
)
from strategies.shedding.candidates import bundles_left_alone, candidates, column, must_stay, ordinary_bundles, pick_by_name, that_fit
from strategies.shedding.recall import hit_counts, with_hit_counts
from strategies.shedding.wording import gathered, settling, unusable
from strategies.usage import weighted_usage, weighted_usages


@dataclass(frozen=True)
class AvgShedder:
    """Pairs brokers from both ends of the score list and moves part of the traffic difference of those that were apart for long."""

    settings: AvgSettings
    weights: Weights

    def usage(self, broker: BrokerLoad) -> float:
        """Largest weighted resource (fraction)."""
        return weighted_usage(broker.figures, self.weights)

    def retain(self, memory: Memory, active: Collection[str]) -> Memory:
        """Forgets the hits of brokers that are gone."""
        high, low = hit_counts(memory)
        live = frozenset(active)
        if live.issuperset(high) and live.issuperset(low):
            return memory
        return with_hit_counts(memory, {b: n for b, n in high.items() if b in live}, {b: n for b, n in low.items() if b in live})

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; the pair furthest apart first. The order of brokers and bundles in the view does not matter."""
        pairs, skips = self._pairs(view)
        high, low = hit_counts(memory)
        for pair in pairs:
            self._count(pair, high, low, alone=len(pairs) == 1)
        skips += close_together([pair for pair in pairs if self._is_close(pair)], self.settings)
        decisions: list[Decision] = []
        for pair in pairs:
            if self._is_close(pair):
                continue
            leaving, staying = self._act(pair, high, low, view.cooling, {decision.bundle for decision in decisions})
            decisions += leaving
            skips += staying
        planned = {decision.bundle: decision.destination or "" for decision in decisions}
        kept = Memory(memory.brokers, replace(memory.cluster, planned=planned))
        return Shedding(tuple(decisions), gathered(skips), with_hit_counts(kept, high, low))

    def _pairs(self, view: ClusterView) -> tuple[list[Pair], list[Skip]]:
        """Brokers by score and name, paired from both ends; those that cannot be judged are left out."""
        brokers = sorted(view.brokers, key=lambda broker: broker.broker)
        scores = (weighted_usages([broker.figures for broker in brokers], self.weights) * 100).tolist()
        lost = [broker.broker for broker, score in zip(brokers, scores, strict=True) if not isfinite(score)]
        waiting = [broker.broker for broker, score in zip(brokers, scores, strict=True) if isfinite(score) and broker.settling]
        judged = [(score, broker) for score, broker in zip(scores, brokers, strict=True) if isfinite(score) and not broker.settling]
        judged.sort(key=lambda one: one[0])
        half = (len(judged) + 1) // 2
        ends = zip(judged[:half], reversed(judged[len(judged) - half :]), strict=True)
        return [Pair(under, over, least, most) for (least, under), (most, over) in ends], [*unusable(lost), *settling(waiting)]

    def _is_close(self, pair: Pair) -> bool:
        return pair.under is pair.over or pair.difference < self.settings.low_threshold

    def _count(self, pair: Pair, high: dict[str, int], low: dict[str, int], alone: bool) -> None:
        """Hits count samples: a broker whose figures are those of the last round adds none, and two such brokers show nothing new."""
        brokers = (pair.under, pair.over)
        if not any(broker.fresh for broker in brokers) or (alone and pair.under is pair.over):
            return
        close, urgent = self._is_close(pair), pair.difference >= self.settings.high_threshold
        for broker in brokers:
            if close:
                low.pop(broker.broker, None)
            elif broker.fresh:
                low[broker.broker] = low.get(broker.broker, 0) + 1
            if not urgent:
                high.pop(broker.broker, None)
            elif broker.fresh and not close:
                high[broker.broker] = high.get(broker.broker, 0) + 1

    def _act(
        self, pair: Pair, high: dict[str, int], low: dict[str, int], cooling: Collection[str], taken: Collection[str]
    ) -> tuple[list[Decision], list[Skip]]:
        names = (pair.under.broker, pair.over.broker)
        hits = Hits(max(high.get(name, 0) for name in names), max(low.get(name, 0) for name in names))
        if not hits.fires(self.settings):
            return [], [waiting_for_hits(pair, hits, self.settings)]
        for name in names:
            high.pop(name, None)
            low.pop(name, None)
        return self._relieve(pair, hits, cooling, taken)

    def _relieve(self, pair: Pair, hits: Hits, cooling: Collection[str], taken: Collection[str]) -> tuple[list[Decision], list[Skip]]:
        need = need_of(pair, self.settings)
        if need is None:
            return [], [too_little_traffic(pair, self.settings)]
        if ordinary_bundles(pair.over) <= 1:
            return [], [sole_bundle(pair)]
        loads, source = pair.over.bundles, pair.over.broker
        found = candidates(loads, cooling, "fixed", taken)
        metric = column(loads, need.metric).tolist()
        names = [loads.names[row] for row in found.rows]
        picked = pick_by_name(names, [metric[row] for row in found.rows], that_fit(need.amount))
        leaving = [transfer(names[at], metric[found.rows[at]], pair=pair, hits=hits, need=need, settings=self.settings) for at in picked]
        others = [name for position, name in enumerate(names) if position not in frozenset(picked)]
        skips = [*must_stay(source, found), *bundles_left_alone(source, "does-not-fit", need.rest, others)]
        return leaving, skips if leaving else [nothing_fits(pair, need), *skips]

"""ThresholdShedder with its known defects repaired: brokers too far above the cluster's mean usage
shed their heaviest bundles.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder` of Pulsar 4.2.4;
what is repaired, and why, is in docs/decisions. Memory: the EWMA of every broker's usage. `parity`
is the rule exactly as in Java.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, isfinite

from strategies.cluster.model import MIB, BrokerLoad, ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import usages_by_name
from strategies.settings import Weights
from strategies.shedding.broker_memory import with_ewmas
from strategies.shedding.bundles_to_shed import MARGIN, Room, relieve
from strategies.shedding.candidates import ordinary_bundles
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import gathered, revised, settling, unusable
from strategies.shedding.threshold.reason_texts import (
    above_average,
    already_fell,
    below_threshold,
    lower_boundary,
    no_load,
    none_below,
    too_little_traffic,
    waiting_for_moves,
)
from strategies.shedding.threshold.settings import LOWER_MARGIN, ThresholdSettings


@dataclass(frozen=True, slots=True)
class _Averaged:
    """A broker with its newest usage and its average."""

    load: BrokerLoad
    usage: float
    ewma: float


@dataclass(frozen=True)
class _Judged:
    """Brokers with finite figures by name; means of their averages and of their newest usages."""

    standings: tuple[_Averaged, ...]
    mean: float
    mean_usage: float

    @cached_property
    def lowest(self) -> float | None:
        """Usage of the emptiest broker that may take a bundle."""
        return min(
            (standing.usage for standing in self.standings if not standing.load.settling),
            default=None,
        )


@dataclass(frozen=True)
class ThresholdShedder:
    """Sheds from brokers whose average and whose newest usage are both at least the threshold above
    the cluster's mean.
    """

    settings: ThresholdSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; the broker furthest above the mean first. The order of brokers and bundles in
        the view does not matter.
        """
        judged, left_out = self._judge(view, memory)
        memory = with_ewmas(
            memory, {standing.load.broker: standing.ewma for standing in judged.standings}
        )
        if judged.mean <= 0:
            return Shedding((), (*left_out, no_load(view.cluster)), memory)
        sources, skips = self._sources(judged)
        skips = [*left_out, *skips]
        decisions: list[Decision] = []
        for source in sources:
            leaving, staying = self._relieve_above(
                source, judged, view, {decision.bundle for decision in decisions}
            )
            decisions += leaving
            skips += staying
        if not decisions and self.settings.lower_boundary:
            decisions, more = self._lower_pass(judged, view)
            skips = revised(skips, decisions, more)
        return Shedding(tuple(decisions), gathered(skips), memory)

    def _judge(self, view: ClusterView, memory: Memory) -> tuple[_Judged, list[Skip]]:
        """Advances the averages by one step per new sample; leaves out brokers whose figures give
        no finite usage.
        """
        brokers, usages = usages_by_name(view.brokers, self.weights)
        standings, lost, weight = [], [], self.settings.history
        for broker, usage in zip(brokers, usages.tolist(), strict=True):
            if not isfinite(usage):
                lost.append(broker.broker)
                continue
            kept = memory.brokers.get(broker.broker)
            old = (
                None if kept is None or kept.ewma is None or not isfinite(kept.ewma) else kept.ewma
            )
            fresh = usage if old is None else old * weight + (1 - weight) * usage
            standings.append(
                _Averaged(broker, usage, fresh if broker.fresh or old is None else old)
            )
        return _Judged(
            tuple(standings),
            _mean([s.ewma for s in standings]),
            _mean([s.usage for s in standings]),
        ), unusable(lost)

    def _sources(self, judged: _Judged) -> tuple[list[_Averaged], list[Skip]]:
        """Brokers above the threshold, worst first, and skips of the others."""
        threshold = self.settings.threshold_percent / 100
        bar, usage_bar = judged.mean + threshold, judged.mean_usage + threshold
        waiting, below, fallen, sources = [], [], [], []
        for standing in judged.standings:
            if standing.load.settling:
                waiting.append(standing.load.broker)
            elif standing.ewma < bar:
                below.append(standing)
            elif standing.usage < usage_bar:
                fallen.append(
                    already_fell(
                        standing.load.broker,
                        standing.ewma,
                        standing.usage,
                        judged.mean_usage,
                        self.settings,
                    )
                )
            else:
                sources.append(standing)
        sources.sort(key=lambda standing: (-_excess(standing, judged), standing.load.broker))
        names, averages = (
            [standing.load.broker for standing in below],
            [standing.ewma for standing in below],
        )
        return sources, [
            *settling(waiting),
            *below_threshold(names, averages, judged.mean, self.settings),
            *fallen,
        ]

    def _relieve_above(
        self, source: _Averaged, judged: _Judged, view: ClusterView, taken: Collection[str]
    ) -> tuple[list[Decision], list[Skip]]:
        excess = _excess(source, judged) - self.settings.threshold_percent / 100
        minimum = source.load.figures.traffic.msg_throughput * (excess + MARGIN)
        if not minimum >= self.settings.min_throughput_mib * MIB:
            return [], [too_little_traffic(source.load.broker, minimum, self.settings)]
        reason = above_average(source.ewma, judged.mean, minimum, self.settings)
        return relieve(source.load, Room(source.usage, judged.lowest), reason, view, taken)

    def _lower_pass(self, judged: _Judged, view: ClusterView) -> tuple[list[Decision], list[Skip]]:
        """Relieves the fullest broker when another one is far below the mean, by average and newest
        usage, and no move is under way.
        """
        if any(standing.load.settling for standing in judged.standings):
            return [], [waiting_for_moves(view.cluster)]
        threshold = self.settings.threshold_percent / 100
        below = any(
            s.ewma < judged.mean - threshold and s.usage < judged.mean_usage - threshold
            for s in judged.standings
        )
        above = [
            s
            for s in judged.standings
            if s.ewma >= judged.mean
            and s.usage >= judged.mean_usage
            and s.load.figures.bundle_count > 1
        ]
        ranked = sorted(above, key=lambda standing: (-standing.ewma, standing.load.broker))
        fullest = (
            next((standing for standing in ranked if ordinary_bundles(standing.load) > 1), None)
            if below
            else None
        )
        if fullest is None:
            return [], [none_below(view.cluster, judged.mean, self.settings)]
        minimum = fullest.load.figures.traffic.msg_throughput * threshold * LOWER_MARGIN
        if not minimum >= self.settings.min_throughput_mib * MIB:
            return [], [too_little_traffic(fullest.load.broker, minimum, self.settings)]
        reason = lower_boundary(fullest.ewma, judged.mean, minimum, self.settings)
        return relieve(fullest.load, Room(fullest.usage, judged.lowest), reason, view, ())


def _excess(standing: _Averaged, judged: _Judged) -> float:
    """How far a broker is above the mean, by the smaller of average and newest usage, because the
    average lags behind moves.
    """
    return min(standing.ewma - judged.mean, standing.usage - judged.mean_usage)


def _mean(values: Sequence[float]) -> float:
    """Mean from an exact sum, so that the order of brokers does not change it."""
    return fsum(values) / len(values) if values else 0.0

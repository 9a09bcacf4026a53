"""UniformLoadShedder with its known defects repaired: the broker with most traffic sheds a part of
its lead over the one with least.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder` of Pulsar 4.2.4;
what is repaired, and why, is in docs/decisions. It has no memory. `parity` is the rule exactly as
in Java.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.settings import Weights
from strategies.shedding.candidates import (
    bundles_left_alone,
    candidates,
    column,
    idle,
    must_stay,
    ordinary_bundles,
    pick_by_name,
    that_fit,
)
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import (
    Metric,
    broker_skips,
    comparable,
    setting,
    too_few_bundles,
)
from strategies.shedding.uniform.reason_texts import (
    even,
    leaves,
    not_the_busiest,
    nothing_fits,
    rest,
    too_little,
    why,
)
from strategies.shedding.uniform.settings import UniformSettings
from strategies.shedding.uniform.traffic_gap import Gap, totals

#: Traffic that an idle broker counts with, so that a ratio to it exists.
_IDLE = 1.0


@dataclass(frozen=True)
class UniformLoadShedder:
    """Sheds from the broker with the highest message rate; if that moves no bundle, from the one
    with the highest throughput.
    """

    settings: UniformSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; at most one broker sheds. The order of brokers and bundles in the view does
        not matter.
        """
        judged, left_out = _judged(view)
        outcome: dict[str, tuple[list[Decision], list[Skip]]] = {}
        for gap in filter(self._is_wide, self._gaps(list(judged.values()))):
            outcome[gap.busiest] = self._relieve(judged[gap.busiest], gap, view)
            if outcome[gap.busiest][0]:
                break
        decisions = [decision for leaving, _ in outcome.values() for decision in leaving]
        skips = [skip for _, staying in outcome.values() for skip in staying]
        others = tuple(name for name in judged if name not in outcome)
        others_stay = (
            [even(view.cluster, self.settings)]
            if not outcome
            else [not_the_busiest(others)]
            if others
            else []
        )
        return Shedding(tuple(decisions), (*left_out, *skips, *others_stay), memory)

    def _gaps(self, brokers: Sequence[BrokerLoad]) -> list[Gap]:
        """One gap per measure. Brokers are in the order of names, so the first of equal ones is the
        first by name.
        """
        gaps = []
        metrics: tuple[Metric, Metric] = ("msg_rate", "msg_throughput")
        for metric in metrics if brokers else ():
            values: list[float] = totals(metric, brokers).tolist()
            most, least = max(values), min(values)
            busiest, idlest = (
                brokers[values.index(most)].broker,
                brokers[values.index(least)].broker,
            )
            gaps.append(
                Gap(metric, busiest, idlest, most, least, (most - least) * self.settings.max_unload)
            )
        return gaps

    def _is_wide(self, gap: Gap) -> bool:
        least = max(gap.least, _IDLE)
        if gap.metric == "msg_rate":
            return 0 < self.settings.rate_difference_percent < (gap.most - least) * 100 / least
        return 0 < self.settings.throughput_ratio < gap.most / least

    def _relieve(
        self, broker: BrokerLoad, gap: Gap, view: ClusterView
    ) -> tuple[list[Decision], list[Skip]]:
        if (count := ordinary_bundles(broker)) <= 1:
            return [], [too_few_bundles(gap.busiest, why(gap), count)]
        if not gap.need >= self.settings.minimum(gap.metric):
            return [], [too_little(gap, self.settings.minimum(gap.metric))]
        found, metric = (
            candidates(broker.bundles, view),
            column(broker.bundles, gap.metric).tolist(),
        )
        movable = {broker.bundles.names[row]: metric[row] for row in found.rows}
        fitting = {name: load for name, load in movable.items() if 0 < load <= gap.need}
        names, limit = list(fitting), self.settings.max_bundles
        picked = [
            names[at] for at in pick_by_name(names, list(fitting.values()), that_fit(gap.need))
        ]
        picked, over = (picked, []) if limit == -1 else (picked[:limit], picked[limit:])
        decisions = [leaves(gap, name, movable[name]) for name in picked]
        skips = [*must_stay(broker.broker, found), *self._left_alone(gap, movable, picked, over)]
        return decisions, skips if decisions else [nothing_fits(gap, self.settings), *skips]

    def _left_alone(
        self, gap: Gap, movable: Mapping[str, float], picked: Collection[str], over: Collection[str]
    ) -> list[Skip]:
        staying = [name for name in movable if name not in picked and name not in over]
        unfit = [name for name in staying if movable[name] > 0]
        return [
            *idle(gap.busiest, [name for name in staying if not movable[name] > 0]),
            *bundles_left_alone(gap.busiest, "does-not-fit", rest(gap), unfit),
            *bundles_left_alone(
                gap.busiest,
                "enough-for-one-round",
                "no more than "
                f"{setting('shedding.uniform.max_bundles', self.settings.max_bundles)} "
                "bundles move",
                list(over),
            ),
        ]


def _judged(view: ClusterView) -> tuple[dict[str, BrokerLoad], list[Skip]]:
    """Brokers by name that can be compared now, and skips of the others."""
    brokers = sorted(view.brokers, key=lambda broker: broker.broker)
    both = totals("msg_rate", brokers), totals("msg_throughput", brokers)
    is_finite = np.isfinite(both).all(axis=0)
    judged, skips = comparable(brokers, np.where(is_finite, 0.0, np.nan), _without_traffic)
    return {brokers[position].broker: brokers[position] for position in judged.tolist()}, skips


def _without_traffic(brokers: Sequence[str]) -> list[Skip]:
    return broker_skips(
        "unusable-figures",
        brokers,
        lambda _: "its traffic figures are not finite",
        lambda: f"the traffic figures of {len(brokers):,} brokers are not finite",
    )

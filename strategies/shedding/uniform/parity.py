"""UniformLoadShedder exactly as Pulsar 4.2.4 runs it: 32-bit sums, a minimum that starts at 2 147
483 647, and idle bundles that move too.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder`. It has no
memory: its result never has more than one source. The repaired rule is in `fixed`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.settings import Weights
from strategies.shedding.candidates import JavaTies, Picker
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import Metric, too_few_bundles
from strategies.shedding.uniform import reason_texts as texts
from strategies.shedding.uniform.settings import UniformSettings
from strategies.shedding.uniform.traffic_gap import Gap, totals

_INT_MAX = 2_147_483_647
_ALMOST_ZERO = 1e-6
#: How much larger than the rest to move a bundle may be, up to Pulsar 4.0.
_OLD_SLACK = 1000


@dataclass(frozen=True)
class ParityUniformLoadShedder:
    """Sheds from the broker with the highest message rate or, where rates are close, with the
    highest throughput.
    """

    settings: UniformSettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round; at most one broker sheds."""
        gap = self._uneven(view)
        if gap is None:
            return Shedding((), (texts.even(view.cluster, self.settings),), memory)
        busiest = next(broker for broker in view.brokers if broker.broker == gap.busiest)
        decisions, skips = self._relieve(busiest, gap, JavaTies(view))
        others = tuple(broker.broker for broker in view.brokers if broker is not busiest)
        return Shedding(
            tuple(decisions),
            (*skips, *([texts.not_the_busiest(others)] if others else [])),
            memory,
        )

    def _uneven(self, view: ClusterView) -> Gap | None:
        """The gap to act on: that of the rates if it is wide enough, otherwise that of the
        throughputs.
        """
        rate, throughput = (
            _gap("msg_rate", view, self.settings.max_unload),
            _gap("msg_throughput", view, self.settings.max_unload),
        )
        limit = self.settings.rate_difference_percent
        if limit > 0 and (rate.most - rate.least) * 100 / rate.least > limit:
            return rate
        limit = self.settings.throughput_ratio
        # With negative figures only, Java finds no broker to relieve and fails here.
        return (
            throughput
            if limit > 0 and throughput.most / throughput.least > limit and throughput.busiest
            else None
        )

    def _relieve(
        self, broker: BrokerLoad, gap: Gap, ties: JavaTies
    ) -> tuple[list[Decision], list[Skip]]:
        if broker.figures.bundle_count <= 1:
            return [], [too_few_bundles(gap.busiest, texts.why(gap), broker.figures.bundle_count)]
        if gap.need < self.settings.minimum(gap.metric):
            return [], [texts.too_little(gap, self.settings.minimum(gap.metric))]
        slack = _OLD_SLACK if self.settings.pulsar_version < "4.1" else 0
        picker = _that_fit(int(gap.need), slack, self.settings.max_bundles)
        picks, skips = ties.pick(broker, gap.metric, picker, ("does-not-fit", texts.rest(gap)))
        decisions = [texts.leaves(gap, one.bundle, one.load) for one in picks]
        return decisions, skips if decisions else [texts.nothing_fits(gap, self.settings), *skips]


def _gap(metric: Metric, view: ClusterView, share: float) -> Gap:
    """Extremes in the order of Java's map: the first broker wins ties, NaN never wins."""
    values = totals(metric, view.brokers)
    busiest, most = _beyond(-1.0, values, view)
    idlest, least = _beyond(-float(_INT_MAX), -values, view)
    least = 1.0 if -_ALMOST_ZERO <= -least <= _ALMOST_ZERO else -least
    return Gap(metric, busiest, idlest, most, least, float(_to_int((most - least) * share)))


def _beyond(start: float, values: Floats, view: ClusterView) -> tuple[str, float]:
    """The first broker with the largest value above `start`; the map's order is computed only when
    several have it.
    """
    above = values[values > start]
    if not len(above):
        return "", start
    having = np.flatnonzero(values == above.max()).tolist()
    first = having[0]
    if len(having) > 1:
        walk = concurrent_hash_map_order([broker.broker for broker in view.brokers]).tolist()
        tied = frozenset(having)
        first = next(index for index in walk if index in tied)
    return view.brokers[first].broker, float(values[having[0]])


def _that_fit(need: int, slack: int, at_most: int) -> Picker:
    """A picker that takes every load not larger than the rest; a load reduces the rest by its whole
    units only.
    """

    def pick(loads: Sequence[float]) -> list[int]:
        left, taken = need, list[int]()
        for position, load in enumerate(loads):
            if at_most != -1 and len(taken) >= at_most:
                break
            if load <= _wrapped(left + slack):
                left = _wrapped(left + _to_int(-load))
                taken.append(position)
        return taken

    return pick


def _to_int(value: float) -> int:
    """Java's cast to `int`: toward zero, clamped to 32 bits; NaN is 0."""
    if isnan(value):
        return 0
    return int(max(-_INT_MAX - 1, min(_INT_MAX, value)))


def _wrapped(value: int) -> int:
    """Java's `int` overflow: the value modulo 2^32, as a signed number."""
    return (value + 2**31) % 2**32 - 2**31

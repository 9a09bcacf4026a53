"""The demand of a cluster's clients: the traffic of each bundle in any time range, before noise and
limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.simulation.fleet import MIB
from rebalancer.simulation.noise import Stream
from rebalancer.simulation.scenarios.schema import Scenario, ScenarioTraffic
from rebalancer.simulation.waves import Summed, mean_between, summed_of, without_transients
from strategies.bundles.bundle_loads import Floats, Ints


@dataclass(eq=False)
class Flow:
    """Topics of one kind. `rate`: float64[bundles], messages/s in at factor 1; the waves of
    producers and consumers.

    `topics`: float64[bundles], number of these topics in each bundle; fractions after a split.
    """

    rate: Floats
    topics: Floats
    message_bytes: float
    fan_out: float
    produced: Summed
    consumed: Summed
    lasting_produced: Summed
    lasting_consumed: Summed


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The demand of one flow: messages/s in, out, and out if all consumers were connected;
    float64[bundles] each.
    """

    rate_in: Floats
    rate_out: Floats
    owed: Floats


@dataclass(eq=False)
class Demand:
    """All flows, and the number of topics of each bundle (int64[bundles])."""

    flows: list[Flow]
    topics: Ints

    def between(self, begin_s: Floats, end_s: Floats, owner: Ints, lasting: bool = False) -> Floats:
        """float64[5, bundles]: mean traffic (columns of a bundle table), and the messages/s that
        all consumers together request.

        `begin_s`, `end_s`: float64[brokers]; a bundle is measured in the window of its `owner`.
        """
        return self.together(self.parts(begin_s, end_s, owner, lasting))

    def parts(
        self, begin_s: Floats, end_s: Floats, owner: Ints, lasting: bool = False
    ) -> list[Part]:
        """The demand of each flow; arguments as in `between`."""
        found = []
        for flow in self.flows:
            produced = mean_between(
                flow.lasting_produced if lasting else flow.produced, begin_s, end_s
            )[owner]
            consumed = mean_between(
                flow.lasting_consumed if lasting else flow.consumed, begin_s, end_s
            )[owner]
            rate_in = flow.rate * produced
            owed = rate_in * flow.fan_out
            found.append(Part(rate_in, owed * consumed, owed))
        return found

    def together(self, parts: Sequence[Part]) -> Floats:
        """The sum over all flows, float64[5, bundles] as in `between`."""
        total = np.zeros((5, len(self.topics)))
        for flow, part in zip(self.flows, parts, strict=True):
            total[0] += part.rate_in
            total[1] += part.rate_out
            total[2] += part.rate_in * flow.message_bytes
            total[3] += part.rate_out * flow.message_bytes
            total[4] += part.owed
        return total

    def split(self, row: int, share: float) -> None:
        """Splits a bundle: the new bundle, appended after all others, takes this share of its
        traffic and topics.
        """
        for flow in self.flows:
            for name in ("rate", "topics"):
                column = getattr(flow, name)
                setattr(flow, name, np.append(column, column[row] * share))
                getattr(flow, name)[row] *= 1.0 - share
        moved = int(self.topics[row] * share)
        self.topics = np.append(self.topics, moved)
        self.topics[row] -= moved


def steady_demand(rates_in: Sequence[float], message_bytes: float, topics: int = 4) -> Demand:
    """Constant demand: `rates_in`, messages/s in of each bundle, read once; the same number of
    topics in each.
    """
    count = len(rates_in)
    each = Flow(
        np.array(rates_in, dtype=np.float64),
        np.full(count, float(topics)),
        message_bytes,
        1.0,
        *[summed_of(None, 0.0)] * 4,
    )
    return Demand([each], np.full(count, topics))


def demand_of(scenario: Scenario, stream: Stream) -> Demand:
    """The traffic of a scenario; partitions are assigned to bundles at random, from `stream`."""
    topics = np.zeros(scenario.bundles, dtype=np.int64)
    places = scenario.places
    flows = [
        _flow(traffic, places[scenario.namespace_of(traffic)], topics, stream)
        for traffic in scenario.traffic
    ]
    return Demand(flows, topics)


def _flow(traffic: ScenarioTraffic, place: range, topics: Ints, stream: Stream) -> Flow:
    message_bytes = stream.between(traffic.message_bytes)
    rate = stream.between(traffic.mib_in) * MIB / message_bytes
    phases = stream.uniform(2).tolist()
    before = topics.copy()
    shares = _even(place, topics) if traffic.even else _by_chance(traffic, place, topics, stream)
    calm = without_transients(traffic.wave), without_transients(traffic.consumers)
    return Flow(
        rate=shares * rate,
        topics=(topics - before).astype(np.float64),
        message_bytes=message_bytes,
        fan_out=traffic.fan_out,
        produced=summed_of(traffic.wave, phases[0]),
        consumed=summed_of(traffic.consumers, phases[1]),
        lasting_produced=summed_of(calm[0], phases[0]),
        lasting_consumed=summed_of(calm[1], phases[1]),
    )


def _even(place: range, topics: Ints) -> Floats:
    rows = slice(place.start, place.stop)
    topics[rows] += 1
    shares = np.zeros(len(topics))
    shares[rows] = 1.0 / len(place)
    return shares


def _by_chance(traffic: ScenarioTraffic, place: range, topics: Ints, stream: Stream) -> Floats:
    """float64[bundles]: random shares that sum to 1, all in the bundles of `place`, because topics
    are placed by their hash.
    """
    partitions = stream.whole(traffic.partitions)
    weights = 1.0 + (traffic.skew - 1.0) * stream.uniform(partitions)
    rows = (stream.uniform(partitions) * len(place)).astype(np.int64) + place.start
    topics += np.bincount(rows, minlength=len(topics))
    return np.asarray(
        np.bincount(rows, weights / weights.sum(), minlength=len(topics)), dtype=np.float64
    )

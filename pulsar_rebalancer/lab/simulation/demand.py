"""The demand of a cluster's clients: the traffic of each bundle in any time range, before noise and
limits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.machine_usage import MIB
from pulsar_rebalancer.lab.simulation.noise import Stream
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario, ScenarioTraffic
from pulsar_rebalancer.lab.simulation.segments import SAMPLE_S, Keys, Segment, Segments, segments_of
from pulsar_rebalancer.lab.simulation.waves import (
    Summed,
    mean_between,
    summed_of,
    without_transients,
)
from strategies.bundles import FULL, Floats, Ints, topic_hash

#: Number of equal parts of all hashes of keys, each with its own traffic if the keys are skewed.
_KEY_PARTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The demand of one flow: messages/s in, out, and out if all consumers were connected;
    float64[bundles] each.
    """

    rate_in: Floats
    rate_out: Floats
    owed: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What all topics of one kind have in common: their messages and the waves of producers and
    consumers, with and without transients.
    """

    message_bytes: float
    fan_out: float
    produced: Summed
    consumed: Summed
    lasting_produced: Summed
    lasting_consumed: Summed

    def waves(self, lasting: bool) -> tuple[Summed, Summed]:
        """Those of producers and of consumers."""
        if lasting:
            return self.lasting_produced, self.lasting_consumed
        return self.produced, self.consumed


@dataclass(eq=False)
class Flow:
    """Topics of one kind. `rate`: float64[bundles], messages/s in at factor 1.

    `topics`: float64[bundles], number of these topics in each bundle; fractions after a split.
    """

    rate: Floats
    topics: Floats
    course: Course

    def part(self, begin_s: Floats, end_s: Floats, owner: Ints, lasting: bool) -> Part:
        """See `Demand.between`."""
        produced, consumed = self.course.waves(lasting)
        rate_in = self.rate * mean_between(produced, begin_s, end_s)[owner]
        owed = rate_in * self.course.fan_out
        return Part(rate_in, owed * mean_between(consumed, begin_s, end_s)[owner], owed)

    def split(self, row: int, share: float) -> None:
        """See `Demand.split`."""
        for name in ("rate", "topics"):
            column = getattr(self, name)
            setattr(self, name, np.append(column, column[row] * share))
            getattr(self, name)[row] *= 1.0 - share


@dataclass(eq=False)
class SegmentedFlow:
    """Scalable topics of one kind. Of each of their segments, over the whole run: `rows`
    (int64[segments]), its bundle; `places`, where its hash is in that bundle (0–1); `begins_s` and
    `ends_s`; `rate`, messages/s in at factor 1; float64[segments] each.

    `topics`: float64[bundles], number of segments that are written to at the time of `at`.
    """

    rows: Ints
    places: Floats
    begins_s: Floats
    ends_s: Floats
    rate: Floats
    topics: Floats
    course: Course

    def at(self, now_s: float) -> None:
        """Counts the segments of each bundle again."""
        active = (self.begins_s <= now_s) & (now_s < self.ends_s)
        count = np.bincount(self.rows[active], minlength=len(self.topics))
        self.topics = count.astype(np.float64)

    def part(self, begin_s: Floats, end_s: Floats, owner: Ints, lasting: bool) -> Part:
        """See `Demand.between`. A segment counts for the part of a window in which it is written
        to.
        """
        produced, consumed = self.course.waves(lasting)
        begin, end = begin_s[owner[self.rows]], end_s[owner[self.rows]]
        written = [np.clip(edge, self.begins_s, self.ends_s) for edge in (begin, end)]
        mean = (produced(written[1]) - produced(written[0])) / (end - begin)
        read = mean_between(consumed, begin, end)
        rate_in = self._by_bundle(self.rate * mean)
        return Part(
            rate_in,
            self._by_bundle(self.rate * mean * read) * self.course.fan_out,
            rate_in * self.course.fan_out,
        )

    def split(self, row: int, share: float) -> None:
        """See `Demand.split`; a segment is in one of the two, by its hash."""
        here = self.rows == row
        high = here & (self.places >= 1.0 - share)
        self.places[here & ~high] /= 1.0 - share
        self.places[high] = (self.places[high] - (1.0 - share)) / share
        self.rows[high] = len(self.topics)
        self.topics = np.append(self.topics, 0.0)

    def _by_bundle(self, traffic: Floats) -> Floats:
        return np.asarray(
            np.bincount(self.rows, traffic, minlength=len(self.topics)), dtype=np.float64
        )


@dataclass(eq=False)
class Demand:
    """All flows, and the number of topics of each bundle that are not segments
    (int64[bundles]).
    """

    flows: list[Flow | SegmentedFlow]
    unsegmented: Ints

    @property
    def topics(self) -> Ints:
        """int64[bundles]: the number of topics of each bundle, and of segments at the time of
        `at`.
        """
        total = self.unsegmented
        for flow in self._segmented():
            total = total + flow.topics.astype(np.int64)
        return total

    def at(self, now_s: float) -> None:
        """Segments that were split or merged by then count."""
        for flow in self._segmented():
            flow.at(now_s)

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
        return [flow.part(begin_s, end_s, owner, lasting) for flow in self.flows]

    def together(self, parts: Sequence[Part]) -> Floats:
        """The sum over all flows, float64[5, bundles] as in `between`."""
        total = np.zeros((5, len(self.unsegmented)))
        for flow, part in zip(self.flows, parts, strict=True):
            total[0] += part.rate_in
            total[1] += part.rate_out
            total[2] += part.rate_in * flow.course.message_bytes
            total[3] += part.rate_out * flow.course.message_bytes
            total[4] += part.owed
        return total

    def split(self, row: int, share: float) -> None:
        """Splits a bundle: the new bundle, appended after all others, takes this share of its
        traffic and topics.
        """
        for flow in self.flows:
            flow.split(row, share)
        moved = int(self.unsegmented[row] * share)
        self.unsegmented = np.append(self.unsegmented, moved)
        self.unsegmented[row] -= moved

    def _segmented(self) -> Iterator[SegmentedFlow]:
        return (flow for flow in self.flows if isinstance(flow, SegmentedFlow))


def steady_demand(rates_in: Sequence[float], message_bytes: float, topics: int = 4) -> Demand:
    """Constant demand: `rates_in`, messages/s in of each bundle, read once; the same number of
    topics in each.
    """
    count = len(rates_in)
    each = Flow(
        np.array(rates_in, dtype=np.float64),
        np.full(count, float(topics)),
        Course(message_bytes, 1.0, *[summed_of(None, 0.0)] * 4),
    )
    return Demand([each], np.full(count, topics))


def demand_of(scenario: Scenario, stream: Stream) -> Demand:
    """The traffic of a scenario; partitions are assigned to bundles at random, from `stream`,
    segments by the hashes of their names.
    """
    topics = np.zeros(scenario.bundles, dtype=np.int64)
    places = scenario.places
    flows: list[Flow | SegmentedFlow] = []
    for traffic in scenario.traffic:
        place = places[scenario.namespace_of(traffic)]
        flows.append(
            _flow(traffic, place, topics, stream)
            if traffic.segments is None
            else _segmented(scenario, traffic, traffic.segments, stream)
        )
    return Demand(flows, topics)


def _drawn(traffic: ScenarioTraffic, stream: Stream) -> tuple[float, Course]:
    """What both kinds of flows draw first: messages/s in at factor 1, and their course."""
    message_bytes = stream.between(traffic.message_bytes)
    rate = stream.between(traffic.mib_in) * MIB / message_bytes
    phases = stream.uniform(2).tolist()
    calm = without_transients(traffic.wave), without_transients(traffic.consumers)
    return rate, Course(
        message_bytes,
        traffic.fan_out,
        produced=summed_of(traffic.wave, phases[0]),
        consumed=summed_of(traffic.consumers, phases[1]),
        lasting_produced=summed_of(calm[0], phases[0]),
        lasting_consumed=summed_of(calm[1], phases[1]),
    )


def _flow(traffic: ScenarioTraffic, place: range, topics: Ints, stream: Stream) -> Flow:
    rate, course = _drawn(traffic, stream)
    before = topics.copy()
    shares = _even(place, topics) if traffic.even else _by_chance(traffic, place, topics, stream)
    return Flow(shares * rate, (topics - before).astype(np.float64), course)


def _segmented(
    scenario: Scenario, traffic: ScenarioTraffic, rules: Segments, stream: Stream
) -> SegmentedFlow:
    rate, course = _drawn(traffic, stream)
    namespace = scenario.namespace_of(traffic)
    ends = np.arange(1, scenario.minutes * PERIOD_S // SAMPLE_S + 1) * SAMPLE_S
    each = rate / rules.topics
    produced = each * mean_between(course.produced, ends - PERIOD_S, ends)
    read = produced * mean_between(course.consumed, ends - PERIOD_S, ends)
    read = read * traffic.fan_out
    segments: list[Segment] = []
    rates: list[float] = []
    hashes: list[int] = []
    for _ in range(rules.topics):
        keys = Keys(1.0 + (traffic.skew - 1.0) * stream.uniform(_KEY_PARTS))
        # The name has a random part: with each seed, the segments are in other bundles.
        topic = f"segment://{namespace}/{traffic.name}-{int(stream.uniform(1)[0] * 2**32):08x}"
        for one in segments_of(rules, keys, course.message_bytes, produced, read):
            segments.append(one)
            rates.append(each * keys.share(one.low, one.high))
            hashes.append(topic_hash(f"{topic}/{one.range_name}"))
    rows, places = _by_hash(np.array(hashes, dtype=np.int64), scenario.places[namespace])
    flow = SegmentedFlow(
        rows,
        places,
        np.array([one.begin_s for one in segments]),
        np.array([one.end_s for one in segments]),
        np.array(rates),
        np.zeros(scenario.bundles),
        course,
    )
    flow.at(0.0)
    return flow


def _by_hash(hashes: Ints, place: range) -> tuple[Ints, Floats]:
    """The bundle of each hash, and where in the bundle it is (0–1)."""
    edges = np.array(initial_boundaries(len(place)), dtype=np.int64)
    edges[-1] += 1  # the last bundle includes its upper boundary
    found = np.searchsorted(edges, hashes, side="right") - 1
    return found + place.start, (hashes - edges[found]) / (edges[found + 1] - edges[found])


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


def initial_boundaries(bundles: int) -> tuple[int, ...]:
    """The boundaries of a new namespace with `bundles` bundles (1 or more); the last bundle takes
    the remainder of the division.
    """
    size = 2**32 // bundles
    return (*(index * size for index in range(bundles)), FULL)

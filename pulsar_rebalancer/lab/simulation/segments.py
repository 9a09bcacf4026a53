"""The segments of a scalable topic of Pulsar 5.0 over time: split while they are hot, merged when
they have been cold for long.

The rules are those of PIP-483 (auto split and merge) for topics whose consumers never outnumber
their segments. They depend on the topic's traffic only, so all segments of a run are known before
it begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import (
    Fraction,
    NotNegative,
    Positive,
    StrictModel,
    Whole,
)
from strategies.bundles import Floats
from strategies.ordered_sum import ordered_sum

#: How often an owner samples the load of a segment (scalableTopicLoadReportIntervalSeconds), and
#: how often the controller decides (scalableTopicAutoScaleIntervalSeconds).
SAMPLE_S, DECISION_S = 10, 60
#: Hashes of keys have 16 bits.
HASHES = 2**16


class SegmentRates(StrictModel):
    """Thresholds of one segment's traffic, a second; `mb`: 1,000,000 bytes, as in broker.conf."""

    messages_in: Positive
    mb_in: Positive
    messages_out: Positive
    mb_out: Positive

    def ratios(self, rate_in: float, rate_out: float, message_bytes: float) -> tuple[float, ...]:
        """Traffic (messages/s) ÷ threshold, in the order of the fields."""
        mb = message_bytes / 1e6
        return (
            rate_in / self.messages_in,
            rate_in * mb / self.mb_in,
            rate_out / self.messages_out,
            rate_out * mb / self.mb_out,
        )


_SPLIT = SegmentRates(messages_in=10_000, mb_in=50, messages_out=50_000, mb_out=250)
_MERGE = SegmentRates(messages_in=1_000, mb_in=5, messages_out=5_000, mb_out=25)


class Segments(StrictModel):
    """The traffic is that of `topics` scalable topics, which begin with `initial` segments each.
    The other keys are those of broker.conf that begin with `scalableTopic` (PIP-483), with their
    defaults; `report_change` is scalableTopicLoadReportRateChangeThreshold.
    """

    topics: Whole = 1
    initial: Annotated[int, Field(ge=1, le=1024)] = 1
    max_segments: Annotated[int, Field(ge=1, le=1024)] = 64
    min_segments: Annotated[int, Field(ge=1, le=1024)] = 1
    max_dag_depth: Annotated[int, Field(ge=0)] = 10
    split_cooldown_s: NotNegative = 60
    merge_cooldown_s: NotNegative = 300
    merge_window_s: NotNegative = 300
    report_change: Fraction = 0.25
    split: SegmentRates = _SPLIT
    merge: SegmentRates = _MERGE

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.min_segments > self.max_segments:
            raise ValueError("min_segments must not be more than max_segments")
        for name in SegmentRates.model_fields:
            if getattr(self.split, name) <= getattr(self.merge, name):
                raise ValueError(f"split.{name} must be more than merge.{name}, as Pulsar demands")
        return self


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment from its creation until it is sealed: hashes of keys `low` to `high`, inclusive.
    `begin_s` is −∞ for those of the start, `end_s` ∞ for those that are never sealed.

    `merges`: in its lineage.
    """

    number: int
    low: int
    high: int
    begin_s: float = -inf
    end_s: float = inf
    merges: int = 0

    @property
    def range_name(self) -> str:
        """The last part of the segment's name."""
        return f"{self.low:04x}-{self.high:04x}-{self.number}"


class Keys:
    """How a topic's traffic is spread over the hashes of its keys: `weights` of equal parts of all
    hashes, float64[n].
    """

    def __init__(self, weights: Floats) -> None:
        self._sums = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])

    def share(self, low: int, high: int) -> float:
        """The part of the traffic whose hashes are from `low` to `high`, inclusive."""
        return float(self._until(high + 1) - self._until(low))

    def _until(self, hash_: int) -> float:
        parts = len(self._sums) - 1
        return float(np.interp(hash_ / HASHES * parts, np.arange(parts + 1), self._sums))


@dataclass(slots=True)
class _LoadRecord:
    """What the controller knows of a segment's load: messages/s, and since when it says so."""

    rate_in: float
    rate_out: float
    modified_s: float


@dataclass(slots=True)
class _ScalableTopic:
    """A scalable topic as its controller sees it. `shares` and `records`: by segment number."""

    rules: Segments
    message_bytes: float
    keys: Keys
    active: list[Segment]
    sealed: list[Segment] = field(default_factory=list)
    records: dict[int, _LoadRecord] = field(default_factory=dict)
    split_s: float = -inf
    merge_s: float = -inf

    def sample(self, at_s: float, rate_in: float, rate_out: float) -> None:
        """Writes the load of each segment that has changed enough since it was last written."""
        for one in self.active:
            share = self.keys.share(one.low, one.high)
            new = _LoadRecord(rate_in * share, rate_out * share, at_s)
            old = self.records.get(one.number)
            if old is None or self._changed(old, new):
                self.records[one.number] = new

    def decide(self, now_s: float) -> None:
        """Splits the hottest segment, or else merges the coldest two neighbours."""
        hottest = self._hottest(now_s)
        if hottest is not None:
            self.split_s = now_s
            middle = (hottest.low + hottest.high) // 2
            halves = ((hottest.low, middle), (middle + 1, hottest.high))
            self._replace([hottest], halves, now_s, hottest.merges)
            return
        pair = self._coldest(now_s)
        if pair is not None:
            self.merge_s = now_s
            depth = max(one.merges for one in pair) + 1
            self._replace(list(pair), ((pair[0].low, pair[1].high),), now_s, depth)

    def _changed(self, old: _LoadRecord, new: _LoadRecord) -> bool:
        return any(
            abs(now - was) > self.rules.report_change * was if was else now > 0
            for was, now in ((old.rate_in, new.rate_in), (old.rate_out, new.rate_out))
        )

    def _hottest(self, now_s: float) -> Segment | None:
        if (
            len(self.active) >= self.rules.max_segments
            or now_s - self.split_s < self.rules.split_cooldown_s
        ):
            return None
        hot = [one for one in self.active if one.high > one.low and self._heat(one.number) > 1.0]
        return max(hot, key=lambda one: self._heat(one.number), default=None)

    def _heat(self, number: int) -> float:
        known = self.records.get(number)
        if known is None:
            return 0.0
        return max(self.rules.split.ratios(known.rate_in, known.rate_out, self.message_bytes))

    def _coldest(self, now_s: float) -> tuple[Segment, Segment] | None:
        if (
            len(self.active) <= self.rules.min_segments
            or now_s - self.merge_s < self.rules.merge_cooldown_s
        ):
            return None
        pairs = [pair for pair in pairwise(self.active) if all(self._cold(pair, now_s))]
        return min(pairs, key=self._combined, default=None)

    def _cold(self, pair: Sequence[Segment], now_s: float) -> Iterator[bool]:
        for one in pair:
            known = self.records.get(one.number)
            yield (
                known is not None
                and one.merges < self.rules.max_dag_depth
                and now_s - known.modified_s >= self.rules.merge_window_s
                and max(self.rules.merge.ratios(known.rate_in, known.rate_out, self.message_bytes))
                < 1.0
            )

    def _combined(self, pair: Sequence[Segment]) -> float:
        known = [self.records[one.number] for one in pair]
        return ordered_sum(one.rate_in + one.rate_out for one in known)

    def _replace(
        self, old: list[Segment], ranges: Sequence[tuple[int, int]], now_s: float, merges: int
    ) -> None:
        first = len(self.active) + len(self.sealed)
        new = [
            Segment(first + count, *hashes, begin_s=now_s, merges=merges)
            for count, hashes in enumerate(ranges)
        ]
        self.sealed += [
            Segment(one.number, one.low, one.high, one.begin_s, now_s, one.merges) for one in old
        ]
        self.active = sorted(
            [*(one for one in self.active if one not in old), *new], key=lambda one: one.low
        )


def segments_of(
    rules: Segments, keys: Keys, message_bytes: float, rates_in: Floats, rates_out: Floats
) -> tuple[Segment, ...]:
    """All segments of a topic, in the order of their numbers. `rates_in`, `rates_out`: the topic's
    messages/s over the minute before each sample, which is made every SAMPLE_S seconds.
    """
    topic = _ScalableTopic(rules, message_bytes, keys, list(_first(rules.initial)))
    for number, (rate_in, rate_out) in enumerate(
        zip(rates_in.tolist(), rates_out.tolist(), strict=True), 1
    ):
        topic.sample(number * SAMPLE_S, rate_in, rate_out)
        if number * SAMPLE_S % DECISION_S == 0:
            topic.decide(number * SAMPLE_S)
    return tuple(sorted([*topic.active, *topic.sealed], key=lambda one: one.number))


def _first(count: int) -> Iterator[Segment]:
    edges = [HASHES * number // count for number in range(count + 1)]
    for number, (low, above) in enumerate(pairwise(edges)):
        yield Segment(number, low, above - 1)

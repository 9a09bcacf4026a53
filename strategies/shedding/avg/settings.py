"""The common parts of both forms of AvgShedder: settings, pairs of brokers, the amount that a pair
moves, and the texts of reasons.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` of Pulsar 4.2.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad, Decision, Evidence, Skip
from strategies.settings import Setting
from strategies.shedding.candidates import Pick
from strategies.shedding.reason_texts import (
    SHOWN,
    SPELLED_OUT,
    Metric,
    broker_skips,
    mib,
    msgs,
    setting,
)


@dataclass(frozen=True, slots=True)
class AvgSettings:
    """Settings of AvgShedder, with Pulsar's defaults. Scores are usages in percent."""

    low_threshold: Annotated[
        float,
        Setting(
            "Difference of two paired brokers that counts as a hit",
            "points",
            "loadBalancerAvgShedderLowThreshold",
            ge=0,
            le=100,
        ),
    ] = 15.0
    high_threshold: Annotated[
        float,
        Setting(
            "Difference that counts as an urgent hit",
            "points",
            "loadBalancerAvgShedderHighThreshold",
            ge=0,
            le=100,
        ),
    ] = 40.0
    hit_count_low: Annotated[
        int,
        Setting(
            "Hits after which a pair acts",
            "samples",
            "loadBalancerAvgShedderHitCountLowThreshold",
            ge=1,
            le=1_000_000,
        ),
    ] = 8
    hit_count_high: Annotated[
        int,
        Setting(
            "Urgent hits after which a pair acts",
            "samples",
            "loadBalancerAvgShedderHitCountHighThreshold",
            ge=1,
            le=1_000_000,
        ),
    ] = 2
    max_unload: Annotated[
        float,
        Setting(
            "Part of the difference in traffic that moves at once",
            "fraction",
            "maxUnloadPercentage",
            ge=0,
            le=1,
        ),
    ] = 0.2
    min_msg_rate: Annotated[
        float,
        Setting(
            "Minimum message rate that is worth moving", "msg/s", "minUnloadMessage", ge=0, le=1e15
        ),
    ] = 1000.0
    min_throughput: Annotated[
        float,
        Setting(
            "Minimum throughput that is worth moving",
            "bytes/s",
            "minUnloadMessageThroughput",
            ge=0,
            le=1e18,
        ),
    ] = 1_048_576.0


@dataclass(frozen=True, slots=True)
class BrokerPair:
    """Two brokers that are far apart: `under` has the lower score, `over` the higher one."""

    under: BrokerLoad
    over: BrokerLoad
    under_score: float
    over_score: float

    @property
    def difference(self) -> float:
        return self.over_score - self.under_score


@dataclass(frozen=True)
class Ranking:
    """Brokers by score, lowest first, paired from both ends. Pair 0 is the furthest apart; a single
    middle broker is paired with itself.
    """

    brokers: Sequence[BrokerLoad]
    scores: Floats

    @cached_property
    def differences(self) -> Floats:
        """float64[pairs]: `BrokerPair.difference` of every pair."""
        half = (len(self.brokers) + 1) // 2
        with np.errstate(all="ignore"):
            return self.scores[::-1][:half] - self.scores[:half]

    def pair(self, position: int) -> BrokerPair:
        """The pair at this position; 0 is the outermost pair."""
        opposite = len(self.brokers) - 1 - position
        return BrokerPair(
            self.brokers[position],
            self.brokers[opposite],
            float(self.scores[position]),
            float(self.scores[opposite]),
        )

    def names(self, positions: Sequence[int]) -> list[str]:
        """Both brokers of these pairs, the one with the lower score first."""
        last = len(self.brokers) - 1
        return [
            self.brokers[end].broker
            for position in positions
            for end in (position, last - position)
        ]


@dataclass(frozen=True, slots=True)
class Hits:
    """Hit counts of a pair: of each threshold, the larger count of the two brokers."""

    high: int
    low: int

    def fires(self, settings: AvgSettings) -> bool:
        return self.high >= settings.hit_count_high or self.low >= settings.hit_count_low

    def code(self, settings: AvgSettings) -> str:
        """Reason code of the count that was reached."""
        return "far-apart" if self.high >= settings.hit_count_high else "apart-for-long"


@dataclass
class HitCounters:
    """Hit counts by broker during a round: Java's two hit maps."""

    high: dict[str, int]
    low: dict[str, int]

    def forget(self, *brokers: str) -> None:
        for broker in brokers:
            self.high.pop(broker, None)
            self.low.pop(broker, None)

    def hit(self, pair: BrokerPair, urgent: bool) -> None:
        """Counts a hit of a pair, as in Java."""
        for broker in (pair.under.broker, pair.over.broker):
            self.low[broker] = self.low.get(broker, 0) + 1
            if urgent:
                self.high[broker] = self.high.get(broker, 0) + 1
            else:
                self.high.pop(broker, None)

    def hits_of(self, pair: BrokerPair) -> Hits:
        """The hits of a pair."""
        names = pair.under.broker, pair.over.broker
        high, low = (max(one.get(name, 0) for name in names) for one in (self.high, self.low))
        return Hits(high, low)

    def look_up(self, pair: BrokerPair) -> Hits:
        """The hits of a pair. As in Java, each lookup creates a zero entry, and lookups after a
        positive result are skipped.
        """
        under, over = pair.under.broker, pair.over.broker
        high = max(self.high.setdefault(under, 0), self.high.setdefault(over, 0))
        low = max(self.low.setdefault(under, 0), self.low.setdefault(over, 0))
        return Hits(high, low)


@dataclass(frozen=True, slots=True)
class Need:
    """Amount to move from one broker of a pair to the other, and its unit; `share`: its part of the
    difference.
    """

    metric: Metric
    amount: float
    share: float

    @property
    def rest(self) -> str:
        """Why bundles of the fuller broker stay."""
        return (
            f"it is idle, or more than what is left of the {self.all} when its turn comes, "
            "heaviest first"
        )

    @property
    def all(self) -> str:
        """The amount to move, and the setting that limits it."""
        return (
            f"{SHOWN[self.metric](self.amount)} to move "
            f"({setting('shedding.avg.max_unload', self.share)} of the difference)"
        )


def need_of(pair: BrokerPair, settings: AvgSettings) -> Need | None:
    """A part of the difference in message rate or, where that is small, in throughput; None when
    both are.
    """
    over, under = pair.over.figures.traffic, pair.under.figures.traffic
    rate = (over.msg_rate - under.msg_rate) * settings.max_unload
    throughput = (over.msg_throughput - under.msg_throughput) * settings.max_unload
    if rate > settings.min_msg_rate:
        return Need("msg_rate", rate, settings.max_unload)
    if throughput > settings.min_throughput:
        return Need("msg_throughput", throughput, settings.max_unload)
    return None


def apart(pair: BrokerPair) -> str:
    """`b5 at 80.0 % is 60.0 points above b1 at 20.0 %`"""
    return (
        f"{pair.over.broker} at {pair.over_score:.1f} % is {pair.difference:.1f} points above "
        f"{pair.under.broker} at {pair.under_score:.1f} %"
    )


def transfer(
    pick: Pick, *, pair: BrokerPair, hits: Hits, need: Need, settings: AvgSettings
) -> Decision:
    """A bundle that goes from the fuller broker of a pair to the emptier one."""
    destination, shown = pair.under.broker, SHOWN[need.metric]
    counted = f"{hits.high} urgent" if hits.code(settings) == "far-apart" else f"{hits.low}"
    text = (
        f"{apart(pair)} after {counted} hits in a row: {shown(pick.load)} of the "
        f"{shown(need.amount)} to move go to {destination}"
    )
    evidence: Evidence = {
        "over_score": pair.over_score,
        "under_score": pair.under_score,
        "hits_high": hits.high,
        "hits_low": hits.low,
        "metric": need.metric,
        "to_move": need.amount,
        "bundle_load": pick.load,
        "paired_with": pair.under.broker,
    }
    code = hits.code(settings)
    return Decision(pick.bundle, pair.over.broker, destination, code, text, evidence)


def close_together(ranking: Ranking, near: Sequence[int], settings: AvgSettings) -> list[Skip]:
    """Skips of brokers in near pairs; a single middle broker is paired with itself. `near`:
    positions of these pairs.
    """
    names = list(dict.fromkeys(ranking.names(near)))
    limit = (
        f"less than {setting('shedding.avg.low_threshold', settings.low_threshold)} points apart"
    )
    return broker_skips(
        "close-together",
        names,
        lambda index: _near(ranking.pair(near[index // 2]), limit),
        lambda: f"{len(names):,} brokers are {limit} from the one they are compared with",
        {"low_threshold": settings.low_threshold},
    )


def waiting_for_hits(pair: BrokerPair, hits: Hits, settings: AvgSettings) -> Skip:
    """Skip of a pair that is far apart, but not yet in enough samples."""
    evidence: Evidence = {
        "difference": pair.difference,
        "hits_high": hits.high,
        "hits_low": hits.low,
    }
    return Skip(
        "broker", _both(pair), "waiting-for-hits", _waiting(pair, hits, settings), None, evidence
    )


def many_waiting(waiting: Sequence[tuple[BrokerPair, Hits]], settings: AvgSettings) -> list[Skip]:
    """The result of `gathered` for more than `SPELLED_OUT` pairs, without creating their skips;
    empty for fewer.
    """
    if len(waiting) <= SPELLED_OUT:
        return []
    names = tuple(
        dict.fromkeys(broker.broker for pair, _ in waiting for broker in (pair.over, pair.under))
    )
    text = f"{len(names):,} brokers for the same reason, such as: {_waiting(*waiting[0], settings)}"
    return [Skip("broker", names, "waiting-for-hits", text)]


def too_little_traffic(pair: BrokerPair, settings: AvgSettings) -> Skip:
    """Skip of a pair whose difference in traffic is too small to balance their usage."""
    over, under = pair.over.figures.traffic, pair.under.figures.traffic
    text = (
        f"{apart(pair)}, but {setting('shedding.avg.max_unload', settings.max_unload)} of the "
        "difference of "
        f"{msgs(over.msg_rate - under.msg_rate)} and "
        f"{mib(over.msg_throughput - under.msg_throughput)} is not more than "
        f"{setting('shedding.avg.min_msg_rate', settings.min_msg_rate)} msg/s or "
        f"{setting('shedding.avg.min_throughput', settings.min_throughput)} bytes/s, the "
        "least that is worth moving"
    )
    return Skip(
        "broker", _both(pair), "too-little-traffic", text, None, {"difference": pair.difference}
    )


def nothing_fits(pair: BrokerPair, need: Need) -> Skip:
    """Skip of a pair that is due but has no bundle of the right size."""
    text = f"{apart(pair)}, but none of its bundles that may move is within the {need.all}"
    return Skip("broker", _both(pair), "nothing-fits", text, None, {"to_move": need.amount})


def sole_bundle(pair: BrokerPair) -> Skip:
    """Skip of a pair that is due but whose only bundle carries the broker's whole load."""
    return Skip("broker", _both(pair), "sole-bundle", f"{apart(pair)}, but it has no second bundle")


def _waiting(pair: BrokerPair, hits: Hits, settings: AvgSettings) -> str:
    low, high = settings.hit_count_low, settings.hit_count_high
    return (
        f"{apart(pair)}, with {hits.low} of {low} hits at {settings.low_threshold:g} points "
        f"and {hits.high} of {high} at "
        f"{settings.high_threshold:g} ({setting('shedding.avg.hit_count_low', low)}, "
        f"{setting('shedding.avg.hit_count_high', high)})"
    )


def _near(pair: BrokerPair, limit: str) -> str:
    if pair.under is pair.over:
        return (
            f"it is in the middle at {pair.over_score:.1f} %, with no broker left to compare it "
            "with"
        )
    return f"{apart(pair)}: {limit}"


def _both(pair: BrokerPair) -> tuple[str, ...]:
    return tuple(dict.fromkeys((pair.over.broker, pair.under.broker)))

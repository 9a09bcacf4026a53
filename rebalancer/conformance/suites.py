"""The suites and strategies that can be compared: one adapter each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from rebalancer.conformance.averaging import (
    AveragingSuite,
    broker_sums,
    bundle_averages,
    signs,
    smoothed_load,
    usages,
)
from rebalancer.conformance.filters import (
    FilterSuite,
    anti_affinity,
    even_distribution,
    isolation,
    topic_count,
)
from rebalancer.conformance.placement import PlacementSuite, PlannedSuite, smoothed_usage
from rebalancer.conformance.shedding import SheddingSuite, averages, hits_and_plan, nothing_else
from rebalancer.conformance.split_boundaries import AlgorithmSuite, HashingSuite
from rebalancer.conformance.split_decisions import ModularSplitSuite, OwnSplitSuite
from rebalancer.conformance.throttling import BucketSuite, LimiterSuite
from rebalancer.conformance.topk import TopSuite
from rebalancer.conformance.transfer import TransferSuite
from rebalancer.conformance.vectors import Case
from strategies.errors import SettingsError


class Suite(Protocol):
    """Runs a case through our code."""

    def replay(self, case: Case) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Per round (or query): Java's answer and ours, with the same fields."""


#: All suites with vectors of Pulsar's classes: (suite, strategy) → adapter.
SUITES: Mapping[tuple[str, str], Suite] = MappingProxyType(
    {
        ("shedding", "ThresholdShedder"): SheddingSuite("threshold", averages),
        ("shedding", "OverloadShedder"): SheddingSuite("overload", nothing_else),
        ("shedding", "UniformLoadShedder"): SheddingSuite("uniform", nothing_else),
        ("shedding", "AvgShedder"): SheddingSuite("avg", hits_and_plan),
        ("placement", "LeastLongTermMessageRate"): PlacementSuite("least_long_term_rate"),
        ("placement", "LeastResourceUsageWithWeight"): PlacementSuite(
            "least_resource_usage", smoothed_usage
        ),
        ("placement", "RoundRobinBrokerSelector"): PlacementSuite("round_robin"),
        ("placement", "AvgShedder"): PlannedSuite(),
        ("placement", "ExtLeastResourceUsageWithWeight"): PlacementSuite(
            "least_resource_usage_extensible"
        ),
        ("averaging", "BundleData"): AveragingSuite(bundle_averages),
        ("averaging", "TimeAverageBrokerData"): AveragingSuite(broker_sums),
        ("averaging", "ResourceUsage"): AveragingSuite(usages),
        ("averaging", "BrokerLoadData"): AveragingSuite(smoothed_load),
        ("averaging", "Compare"): AveragingSuite(signs),
        ("splits", "hashing"): HashingSuite(),
        ("splits", "algorithms"): AlgorithmSuite(),
        ("splits", "BundleSplitterTask"): ModularSplitSuite(),
        ("splits", "DefaultNamespaceBundleSplitStrategyImpl"): OwnSplitSuite(),
        ("topk", "TopKBundles"): TopSuite(),
        ("transfer", "TransferShedder"): TransferSuite(),
        ("filters", "antiAffinity"): FilterSuite(anti_affinity),
        ("filters", "evenDistribution"): FilterSuite(even_distribution),
        ("filters", "isolation"): FilterSuite(isolation),
        ("filters", "topicCount"): FilterSuite(topic_count),
        ("throttling", "AsyncTokenBucket"): BucketSuite(),
        ("throttling", "DispatchRateLimiterAsyncTokenBucket"): LimiterSuite("token_bucket"),
        ("throttling", "DispatchRateLimiterClassic"): LimiterSuite("classic"),
    }
)

#: Classes that no live round asks: brokers themselves cut bundles, smooth their load and limit what
#: they dispatch.
NOT_LIVE = frozenset(
    {
        ("splits", "hashing"),
        ("splits", "algorithms"),
        ("averaging", "TimeAverageBrokerData"),
        ("averaging", "BrokerLoadData"),
        *(key for key in SUITES if key[0] == "throttling"),
    }
)


def suite_of(case: Case) -> Suite:
    """The adapter of a case. Raises SettingsError for an unknown suite or strategy."""
    suite, strategy = case.envelope.suite, case.envelope.strategy
    known = list(dict.fromkeys(name for name, _ in SUITES))
    if suite not in known:
        raise SettingsError(
            [f"{case.where}: suite {suite!r} is unknown; known are {', '.join(known)}"]
        )
    if (suite, strategy) not in SUITES:
        there = ", ".join(sorted(one for name, one in SUITES if name == suite))
        raise SettingsError(
            [f"{case.where}: {suite} has no strategy {strategy!r}; there are {there}"]
        )
    return SUITES[suite, strategy]

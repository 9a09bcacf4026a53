"""The suites and strategies that can be compared: one adapter each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from pulsar_rebalancer.lab.conformance.averaging import (
    averaged,
    broker_sums,
    bundle_averages,
    signs,
    smoothed_load,
    usages,
)
from pulsar_rebalancer.lab.conformance.filters import (
    AffinityQuery,
    IsolationQuery,
    SpreadQuery,
    TopicCountQuery,
    anti_affinity,
    even_distribution,
    filtered,
    isolation,
    topic_count,
)
from pulsar_rebalancer.lab.conformance.placement import (
    placed,
    planned,
    planned_by_name,
    smoothed_usage,
)
from pulsar_rebalancer.lab.conformance.shedding import averages, hits_and_plan, shed
from pulsar_rebalancer.lab.conformance.splitting import (
    algorithms,
    hashing,
    modular_splits,
    own_splits,
)
from pulsar_rebalancer.lab.conformance.throttling import bucket, limiter
from pulsar_rebalancer.lab.conformance.transfer import top_bundles, transfers
from pulsar_rebalancer.lab.conformance.vectors import (
    Case,
    Difference,
    Envelope,
    Played,
    differences,
)
from strategies.errors import SettingsError


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went. `differences` are those of its first round that differs: what follows from a
    difference says nothing new.
    """

    case: Envelope
    rounds: int
    differences: tuple[Difference, ...] = ()

    @property
    def result(self) -> Literal["identical", "different"]:
        return "different" if self.differences else "identical"


def compare(case: Case) -> CaseResult:
    """Plays one case and compares round by round, up to the first that differs."""
    rounds, found = _play(case, suite_of(case))
    return CaseResult(case.envelope, rounds, tuple(found))


def _play(case: Case, suite: "Suite") -> tuple[int, list[Difference]]:
    number = 0
    try:
        for number, (expected, got) in enumerate(suite(case), start=1):
            if found := differences(case.envelope.id, number, expected, got):
                return number, found
    except SettingsError as error:
        raise SettingsError(
            [
                text if text.startswith(case.where) else f"{case.where}: {text}"
                for text in error.complaints
            ]
        ) from error
    return number, []


#: Runs a case through our code.
Suite = Callable[[Case], Played]

#: All suites with vectors of Pulsar's classes: (suite, strategy) → adapter.
SUITES: Mapping[tuple[str, str], Suite] = MappingProxyType(
    {
        ("shedding", "ThresholdShedder"): partial(shed, "threshold", state=averages),
        ("shedding", "OverloadShedder"): partial(shed, "overload"),
        ("shedding", "UniformLoadShedder"): partial(shed, "uniform"),
        ("shedding", "AvgShedder"): partial(shed, "avg", state=hits_and_plan),
        ("placement", "LeastLongTermMessageRate"): partial(placed, "least_long_term_rate"),
        ("placement", "LeastResourceUsageWithWeight"): partial(
            placed, "least_resource_usage", state=smoothed_usage
        ),
        ("placement", "RoundRobinBrokerSelector"): partial(placed, "round_robin"),
        ("placement", "AvgShedder"): planned,
        ("placement", "ExtLeastResourceUsageWithWeight"): partial(
            placed, "least_resource_usage_extensible"
        ),
        ("averaging", "BundleData"): partial(averaged, bundle_averages),
        ("averaging", "TimeAverageBrokerData"): partial(averaged, broker_sums),
        ("averaging", "ResourceUsage"): partial(averaged, usages),
        ("averaging", "BrokerLoadData"): partial(averaged, smoothed_load),
        ("averaging", "Compare"): partial(averaged, signs),
        ("splits", "hashing"): hashing,
        ("splits", "algorithms"): algorithms,
        ("splits", "BundleSplitterTask"): modular_splits,
        ("splits", "DefaultNamespaceBundleSplitStrategyImpl"): own_splits,
        ("topk", "TopKBundles"): top_bundles,
        ("transfer", "TransferShedder"): transfers,
        ("filters", "antiAffinity"): partial(filtered, AffinityQuery, anti_affinity),
        ("filters", "evenDistribution"): partial(filtered, SpreadQuery, even_distribution),
        ("filters", "isolation"): partial(filtered, IsolationQuery, isolation),
        ("filters", "topicCount"): partial(filtered, TopicCountQuery, topic_count),
        ("placement50", "AvgShedder50"): planned_by_name,
        ("splits50", "algorithms50"): algorithms,
        ("throttling", "AsyncTokenBucket"): bucket,
        ("throttling", "DispatchRateLimiterAsyncTokenBucket"): partial(limiter, "token_bucket"),
        ("throttling", "DispatchRateLimiterClassic"): partial(limiter, "classic"),
    }
)

#: Classes that no live round asks: brokers themselves cut bundles, smooth their load and limit what
#: they dispatch.
NOT_LIVE = frozenset(
    {
        ("splits", "hashing"),
        ("splits", "algorithms"),
        ("splits50", "algorithms50"),
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

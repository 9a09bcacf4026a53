"""TransferShedder's settings, what it looks at, and what it answers: shared by the rule to the letter, the repaired one and the live round.

Source of the rule: `org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder` of Pulsar 4.2.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan, sqrt
from typing import Annotated, Literal

from strategies.java.pulsar_version import Imitated
from strategies.settings import Setting

TransferReason = Literal["Overloaded", "Underloaded", "HitCount", "NoBundles", "CoolDown", "OutDatedData", "NoLoadData", "NoBrokers"]

#: A namespace's name, of two parts or, before Pulsar 2, three (NamespaceName, NamedEntity).
_NAMESPACE = re.compile(r"[-=:.\w]*(?:/[-=:.\w]*){1,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """Settings of TransferShedder, with Pulsar's defaults."""

    target_std: Annotated[
        float,
        Setting("Up to this standard deviation of usage nothing moves", "fraction", "loadBalancerBrokerLoadTargetStd", ge=0, le=100),
    ] = 0.25
    hit_count: Annotated[
        int,
        Setting(
            "It must be uneven in more rounds in a row",
            "rounds",
            "loadBalancerSheddingConditionHitCountThreshold",
            ge=0,
            le=1000,
        ),
    ] = 3
    transfer: Annotated[
        bool, Setting("Name the destination, and swap bundles; otherwise bundles are only unloaded", "", "loadBalancerTransferEnabled")
    ] = True
    max_brokers: Annotated[
        int, Setting("So many brokers give in one round at most", "", "loadBalancerMaxNumberOfBrokerSheddingPerCycle", ge=0, le=10_000)
    ] = 3
    delay_s: Annotated[
        float, Setting("How long a broker that gave is left in peace", "s", "loadBalanceSheddingDelayInSeconds", ge=0, le=86_400)
    ] = 180.0
    ttl_s: Annotated[
        float, Setting("Load data older than this are not used", "s", "loadBalancerBrokerLoadDataTTLInSeconds", ge=1, le=86_400)
    ] = 1800.0
    overload_percent: Annotated[
        float,
        Setting("Above this usage a broker may be overloaded", "percent", "loadBalancerBrokerOverloadedThresholdPercentage", ge=0, le=100),
    ] = 85.0
    #: No setting: a round leaves out what `limits.excluded_namespaces` names before this rule sees it; Java's class does it itself.
    excluded_namespaces: str = ""
    with_policies: Annotated[
        bool,
        Setting(
            "Move bundles with isolation or anti-affinity policies too, as far as these allow",
            pulsar="loadBalancerSheddingBundlesWithPoliciesEnabled",
        ),
    ] = False
    top_bundles: Annotated[
        int,
        Setting("Bundles of a broker that are looked at", "", "loadBalancerMaxNumberOfBundlesInBundleLoadReport", ge=1, le=100_000),
    ] = 10
    history: Annotated[
        float, Setting("Weight of the past in a broker's averaged usage", "fraction", "loadBalancerHistoryResourcePercentage", ge=0, le=1)
    ] = 0.9
    debug: Annotated[
        bool, Setting("`parity` only: Pulsar accounts for what a swap brings back in debug mode alone", "", "loadBalancerDebugModeEnabled")
    ] = False
    pulsar_version: Imitated = "4.2"

    def is_excluded(self, bundle: str) -> bool:
        """Whether the bundle's namespace is one of those that stay; Pulsar has none whose name it would not accept."""
        namespace = bundle.rpartition("/")[0]
        names = {name.strip() for name in self.excluded_namespaces.split(",")} if self.excluded_namespaces else ()
        return namespace in names and _NAMESPACE.fullmatch(namespace) is not None


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """A broker's entry in the load-data store: averaged usage (fraction), averaged and current throughput (bytes/s), when (ms)."""

    usage: float
    throughput_average: float
    throughput: float
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class OfferedBundle:
    """One of a broker's heaviest bundles, with its bytes/s."""

    bundle: str
    throughput: float


def transferable(
    settings: TransferSettings, has_policies: Callable[[str], bool], candidates: Callable[[str], Collection[str]]
) -> Callable[[str, str, str], bool]:
    """`Stores.may_move` by policies. `candidates(bundle)`: the available brokers that all filters let through."""

    def may_move(bundle: str, source: str, destination: str) -> bool:
        if not settings.with_policies and has_policies(bundle):
            return False
        found = candidates(bundle)
        if destination not in found:
            return False
        return destination != source if settings.transfer else any(broker != source for broker in found)

    return may_move


def anywhere(bundle: str, source: str, destination: str) -> bool:
    """No policies: every bundle may go everywhere."""
    return True


@dataclass(frozen=True)
class Stores:
    """What one round looks at. `brokers` in the order of the walk; `top`: lightest first.

    `cooling`: bundles that moved a short while ago; `unloaded_at_ms`: brokers that gave, and when; `may_move(bundle, source, destination)`:
    whether policies and filters allow it.
    """

    now_ms: int
    brokers: Mapping[str, BrokerEntry]
    top: Mapping[str, Sequence[OfferedBundle]]
    available: Collection[str]
    cooling: Collection[str] = ()
    unloaded_at_ms: Mapping[str, int] = field(default_factory=dict)
    may_move: Callable[[str, str, str], bool] = anywhere


@dataclass(frozen=True, slots=True)
class TransferMove:
    """A bundle that leaves; without a destination where transfers are off. `swapped`: it makes room on its broker for another one."""

    source: str
    bundle: str
    destination: str | None
    reason: TransferReason
    throughput: float
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and population standard deviation of usage, with what it takes to estimate them after a move."""

    average: float = 0.0
    std: float = 0.0
    squares: float = 0.0
    count: int = 0

    def after(self, most: float, least: float, moved: float) -> Statistics:
        """When `moved` (usage) went from the fullest to the emptiest; the mean stays."""
        fuller, emptier = java_max(0.0, most - moved), least + moved
        squares = self.squares - (most * most + least * least)
        squares += fuller * fuller + emptier * emptier
        std = sqrt(abs(squares / self.count - self.average * self.average))
        return Statistics(self.average, std, squares, self.count)


def statistics(usages: Sequence[float]) -> Statistics:
    """Of at least one usage, summed in this order as Java does: of nearly equal usages the deviation may be NaN."""
    total = squares = 0.0
    for usage in usages:
        total += usage
        squares += usage * usage
    average = total / len(usages)
    variance = squares / len(usages) - average * average
    return Statistics(average, sqrt(variance) if variance >= 0 else nan, squares, len(usages))


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """Answer of a round. `skipped`: the one reason nothing moved, None when something did.

    `published`: mean and standard deviation of a round that got as far as having them. `over`: brokers whose unloading is long enough ago.
    `left_out`: brokers that were not judged (fixed mode).
    """

    moves: tuple[TransferMove, ...]
    skipped: TransferReason | None
    hits: int
    statistics: Statistics
    published: tuple[float, float] | None
    over: frozenset[str] = frozenset()
    left_out: Mapping[str, TransferReason] = field(default_factory=dict)


def java_max(first: float, second: float) -> float:
    """`Math.max`: NaN if either is."""
    return nan if isnan(first) or isnan(second) else max(first, second)


def quotient(dividend: float, divisor: float) -> float:
    """IEEE division: by zero it is infinite, or NaN for 0/0."""
    if divisor:
        return dividend / divisor
    return nan if isnan(dividend) or dividend == 0 or isnan(divisor) else inf if dividend > 0 else -inf

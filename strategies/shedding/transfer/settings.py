"""TransferShedder's settings, input and verdict: shared by the parity rule, the repaired rule and
the live round.

Source of the rule: `org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder` of
Pulsar 4.2.4.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan, sqrt
from typing import Annotated, Literal

from strategies.java.pulsar_versions_and_defaults import Imitated
from strategies.ordered_sum import ordered_sum
from strategies.settings import Setting

TransferReason = Literal[
    "Overloaded",
    "Underloaded",
    "HitCount",
    "NoBundles",
    "CoolDown",
    "OutDatedData",
    "NoLoadData",
    "NoBrokers",
]

#: A namespace's name, of two parts or, before Pulsar 2, three (NamespaceName, NamedEntity).
_NAMESPACE = re.compile(r"[-=:.\w]*(?:/[-=:.\w]*){1,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """Settings of TransferShedder, with Pulsar's defaults."""

    target_std: Annotated[
        float,
        Setting(
            "Standard deviation of usage up to which no bundle moves",
            "fraction",
            "loadBalancerBrokerLoadTargetStd",
            ge=0,
            le=100,
        ),
    ] = 0.25
    hit_count: Annotated[
        int,
        Setting(
            "Usage must be uneven in more than this number of rounds in a row",
            "rounds",
            "loadBalancerSheddingConditionHitCountThreshold",
            ge=0,
            le=1000,
        ),
    ] = 3
    transfer: Annotated[
        bool,
        Setting(
            "Name the destination, and swap bundles; otherwise bundles are only unloaded",
            "",
            "loadBalancerTransferEnabled",
        ),
    ] = True
    max_brokers: Annotated[
        int,
        Setting(
            "Maximum number of brokers that shed in one round",
            "",
            "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
            ge=0,
            le=10_000,
        ),
    ] = 3
    delay_s: Annotated[
        float,
        Setting(
            "How long a broker that shed bundles does not shed again",
            "s",
            "loadBalanceSheddingDelayInSeconds",
            ge=0,
            le=86_400,
        ),
    ] = 180.0
    ttl_s: Annotated[
        float,
        Setting(
            "Load data older than this is not used",
            "s",
            "loadBalancerBrokerLoadDataTTLInSeconds",
            ge=1,
            le=86_400,
        ),
    ] = 1800.0
    overload_percent: Annotated[
        float,
        Setting(
            "Above this usage a broker may be overloaded",
            "percent",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=0,
            le=100,
        ),
    ] = 85.0
    #: Not a setting: a round applies `limits.excluded_namespaces` before this rule runs; Java's
    #: class does it itself.
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
        Setting(
            "Number of a broker's heaviest bundles that may move",
            "",
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
            ge=1,
            le=100_000,
        ),
    ] = 10
    history: Annotated[
        float,
        Setting(
            "Weight of the past in a broker's averaged usage",
            "fraction",
            "loadBalancerHistoryResourcePercentage",
            ge=0,
            le=1,
        ),
    ] = 0.9
    debug: Annotated[
        bool,
        Setting(
            "`parity` only: count what a swap brings back, as Pulsar does in debug mode only",
            "",
            "loadBalancerDebugModeEnabled",
        ),
    ] = False
    pulsar_version: Imitated = "4.2"

    def is_excluded(self, bundle: str) -> bool:
        """Whether the bundle's namespace is excluded; names that Pulsar does not accept as a
        namespace exclude nothing.
        """
        namespace = bundle.rpartition("/")[0]
        names = (
            {name.strip() for name in self.excluded_namespaces.split(",")}
            if self.excluded_namespaces
            else ()
        )
        return namespace in names and _NAMESPACE.fullmatch(namespace) is not None


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """A broker's entry in the load-data store: averaged usage (fraction), averaged and current
    throughput (bytes/s), when (ms).
    """

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
    settings: TransferSettings, candidates: Collection[str], source: str, destination: str
) -> bool:
    """Whether a bundle may move if these available brokers pass all filters."""
    if destination not in candidates:
        return False
    if settings.transfer:
        return destination != source
    return any(broker != source for broker in candidates)


#: Returns the top list of a broker, lightest bundle first; None for a broker without one.
TopLists = Callable[[str], Sequence[OfferedBundle] | None]


@dataclass(frozen=True)
class Stores:
    """Input of one round. `brokers`: in the order of the loop.

    `cooling`: bundles that moved recently; `unloaded_at_ms`: broker → when it last shed;
    `may_move(bundle, source, destination)`: whether policies and filters allow the move.
    """

    now_ms: int
    brokers: Mapping[str, BrokerEntry]
    top: TopLists
    available: Collection[str]
    cooling: Collection[str] = ()
    unloaded_at_ms: Mapping[str, int] = field(default_factory=dict)
    may_move: Callable[[str, str, str], bool] = lambda bundle, source, destination: True


@dataclass(frozen=True, slots=True)
class TransferMove:
    """A bundle that leaves; without a destination if transfers are off. `swapped`: it makes room on
    its broker for another bundle.
    """

    source: str
    bundle: str
    destination: str | None
    reason: TransferReason
    throughput: float
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and population standard deviation of usage, with the sums to estimate them after a
    move.
    """

    average: float = 0.0
    std: float = 0.0
    squares: float = 0.0
    count: int = 0

    def after(self, most: float, least: float, moved: float) -> "Statistics":
        """Statistics after a move of `moved` (usage) from the fullest to the emptiest broker; the
        mean stays.
        """
        fuller, emptier = max(most - moved, 0.0), least + moved  # in this order NaN stays NaN
        squares = self.squares - (most * most + least * least)
        squares += fuller * fuller + emptier * emptier
        std = sqrt(abs(squares / self.count - self.average * self.average))
        return Statistics(self.average, std, squares, self.count)


def statistics(usages: Sequence[float]) -> Statistics:
    """Statistics of at least one usage, summed in this order as in Java: for nearly equal usages
    the deviation may be NaN.
    """
    squares = ordered_sum(usage * usage for usage in usages)
    average = ordered_sum(usages) / len(usages)
    variance = squares / len(usages) - average * average
    return Statistics(average, sqrt(variance) if variance >= 0 else nan, squares, len(usages))


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """Verdict of a round. `skipped`: the reason why no bundle moves, None if some do.

    `published`: mean and standard deviation, if the round got as far as computing them. `over`:
    brokers that shed long enough ago. `left_out`: brokers left out of the round (fixed mode).
    """

    moves: tuple[TransferMove, ...]
    skipped: TransferReason | None
    hits: int
    statistics: Statistics
    published: tuple[float, float] | None
    over: frozenset[str] = frozenset()
    left_out: Mapping[str, TransferReason] = field(default_factory=dict)


def quotient(dividend: float, divisor: float) -> float:
    """IEEE division: infinite by zero, NaN for 0/0."""
    if divisor:
        return dividend / divisor
    return (
        nan if isnan(dividend) or dividend == 0 or isnan(divisor) else inf if dividend > 0 else -inf
    )

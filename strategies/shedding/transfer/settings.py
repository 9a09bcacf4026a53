"""The settings of TransferShedder."""

import re
from dataclasses import dataclass
from typing import Annotated

from strategies.java.pulsar_versions_and_defaults import Imitated
from strategies.settings import Setting

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

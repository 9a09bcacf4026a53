"""All load-balancing and dispatch-throttling keys of a Pulsar 4.2 broker.conf: type, default, and
why a key may have no effect here.

Keys that have an effect are not listed here: each setting names its key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from pulsar_rebalancer.settings.broker_conf.service_configuration import SERVICE_CONFIGURATION
from strategies.java.pulsar_versions_and_defaults import RELEASE_DEFAULTS, PulsarRelease

Kind = Literal["int", "long", "double", "boolean", "text"]
Value = int | float | bool | str

#: Pulsar's images write variables with this prefix into broker.conf.
PREFIX = "PULSAR_PREFIX_"

ENABLED = "loadBalancerEnabled"
LOAD_MANAGER = "loadManagerClassName"
SHEDDING = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
LIMITER = "dispatchRateLimiterFactoryClassName"
#: New spelling → the historic one without the second "d".
BANDWIDTH_WEIGHTS: Mapping[str, str] = MappingProxyType(
    {
        "loadBalancerBandwidthInResourceWeight": "loadBalancerBandwithInResourceWeight",
        "loadBalancerBandwidthOutResourceWeight": "loadBalancerBandwithOutResourceWeight",
    }
)

OLD_SPELLING = {old: new for new, old in BANDWIDTH_WEIGHTS.items()}

_ABSENT = "not used by this version"
#: Fields of Kubernetes, which stand beside the keys in the values of a chart.
_KUBERNETES = frozenset({"loadbalancerip", "loadbalancerclass", "loadbalancersourceranges"})


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its default in Pulsar 4.2. `why`: why it has no effect here, for keys without a
    setting.
    """

    name: str
    kind: Kind
    default: Value
    why: str = _ABSENT

    def default_in(self, release: PulsarRelease) -> Value:
        """The default in a release; `default` is that of the oldest one, and of a release that does
        not know the key.
        """
        differs = RELEASE_DEFAULTS.get(self.name)
        found: Value | None = None if differs is None else differs.values[release]
        return self.default if found is None else found


_KINDS: Mapping[type, Kind] = {bool: "boolean", int: "int", float: "double", str: "text"}


def _keys(why: str, **defaults: Value) -> Iterable[Key]:
    for name, default in defaults.items():
        kind = "long" if name.endswith("InByte") else _KINDS[type(default)]
        yield Key(name, kind, default, why)


_MODULAR = "org.apache.pulsar.broker.loadbalance.impl"
_PERSISTENT = "org.apache.pulsar.broker.service.persistent"

KEYS: Mapping[str, Key] = MappingProxyType(
    {
        key.name: key
        for keys in (
            _keys(
                "the job decides while it runs; disable shedding in the brokers before its "
                "commands are applied",
                loadBalancerEnabled=True,
                loadBalancerSheddingEnabled=True,
            ),
            _keys(
                "only selects whether loadBalancerLoadSheddingStrategy is used; the "
                "extensible load manager uses TransferShedder",
                loadManagerClassName=f"{_MODULAR}.ModularLoadManagerImpl",
            ),
            _keys(
                _ABSENT,
                loadBalancerLoadSheddingStrategy=f"{_MODULAR}.ThresholdShedder",
                loadBalancerLoadPlacementStrategy=f"{_MODULAR}.LeastLongTermMessageRate",
                loadBalancerSheddingIntervalMinutes=1,
                loadBalancerSheddingGracePeriodMinutes=30,
                loadBalancerBrokerOverloadedThresholdPercentage=85,
                loadBalancerBrokerThresholdShedderPercentage=10,
                loadBalancerHistoryResourcePercentage=0.9,
                loadBalancerBundleUnloadMinThroughputThreshold=10.0,
                lowerBoundarySheddingEnabled=False,
                loadBalancerCPUResourceWeight=1.0,
                loadBalancerDirectMemoryResourceWeight=0.0,
                loadBalancerBandwidthInResourceWeight=1.0,
                loadBalancerBandwidthOutResourceWeight=1.0,
                loadBalancerBandwithInResourceWeight=1.0,
                loadBalancerBandwithOutResourceWeight=1.0,
                loadBalancerAverageResourceUsageDifferenceThresholdPercentage=10.0,
                loadBalancerMsgRateDifferenceShedderThreshold=50.0,
                loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=4.0,
                maxUnloadPercentage=0.2,
                maxUnloadBundleNumPerShedding=-1,
                minUnloadMessage=1000,
                minUnloadMessageThroughput=1_048_576,
                loadBalancerAvgShedderLowThreshold=15.0,
                loadBalancerAvgShedderHighThreshold=40.0,
                loadBalancerAvgShedderHitCountLowThreshold=8,
                loadBalancerAvgShedderHitCountHighThreshold=2,
                loadBalancerBrokerMaxTopics=50_000,
                loadBalancerDistributeBundlesEvenlyEnabled=True,
                loadBalancerSheddingExcludedNamespaces="",
                preferLaterVersions=False,
                failureDomainsEnabled=False,
                loadBalancerNamespaceBundleMaxTopics=1000,
                loadBalancerNamespaceBundleMaxSessions=1000,
                loadBalancerNamespaceBundleMaxMsgRate=30_000,
                loadBalancerNamespaceBundleMaxBandwidthMbytes=100,
                loadBalancerNamespaceMaximumBundles=128,
                defaultNamespaceBundleSplitAlgorithm="range_equally_divide",
                supportedNamespaceBundleSplitAlgorithms=(
                    "range_equally_divide,topic_count_equally_divide,specified_positions_divide,flow_or_qps_equally_divide"
                ),
                flowOrQpsDifferenceThresholdPercentage=10,
                loadBalancerBrokerLoadTargetStd=0.25,
                loadBalancerSheddingConditionHitCountThreshold=3,
                loadBalancerTransferEnabled=True,
                loadBalancerMaxNumberOfBrokerSheddingPerCycle=3,
                loadBalanceSheddingDelayInSeconds=180,
                loadBalancerBrokerLoadDataTTLInSeconds=1800,
                loadBalancerMaxNumberOfBundlesInBundleLoadReport=10,
                loadBalancerSheddingBundlesWithPoliciesEnabled=False,
                loadBalancerDebugModeEnabled=False,
                loadBalancerMaxNumberOfBundlesToSplitPerCycle=10,
                loadBalancerNamespaceBundleSplitConditionHitCountThreshold=3,
            ),
            _keys(
                "brokers split bundles while it is true; to let the job split, set it to "
                "false and splitting.enabled to true",
                loadBalancerAutoBundleSplitEnabled=True,
            ),
            _keys(
                "brokers measure and report by it; here the collector has its own interval",
                loadBalancerReportUpdateThresholdPercentage=10,
                loadBalancerReportUpdateMinIntervalMillis=5000,
                loadBalancerReportUpdateMaxIntervalMinutes=15,
                loadBalancerHostUsageCheckIntervalMinutes=1,
                loadBalancerResourceQuotaUpdateIntervalMinutes=15,
                statsUpdateFrequencyInSecs=60,
                statsUpdateInitialDelayInSecs=60,
                loadBalancerOverrideBrokerNicSpeedGbps="",
                loadBalancerOverrideBrokerNics="",
                exposeBundlesMetricsInPrometheus=False,
            ),
            _keys(
                "only brokers use it; it has no effect on decisions",
                loadBalancerAutoUnloadSplitBundlesEnabled=True,
                defaultNumberOfNamespaceBundles=4,
                topicBundleAssignmentStrategy="org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner",
                namespaceBundleUnloadingTimeoutMs=60_000,
                loadBalancerSplitIntervalMinutes=1,
                loadBalancerMultiPhaseBundleUnload=True,
            ),
            _keys(
                "belongs to the extensible load manager's own tables",
                loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds=3600,
                loadBalancerServiceUnitStateMonitorIntervalInSeconds=60,
                loadBalancerInFlightServiceUnitStateWaitingTimeInMillis=30_000,
                loadBalancerServiceUnitStateMaxConcurrentOverrides=64,
                loadBalancerServiceUnitTableViewSyncer="None",
                loadManagerServiceUnitStateTableViewClassName=(
                    "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateTableViewImpl"
                ),
            ),
            _keys(
                "heap usage is a poor measure of load: since Pulsar 3.0 only the extensible "
                "load manager weighs it",
                loadBalancerMemoryResourceWeight=0.0,
            ),
            _keys(
                "not in Pulsar 4.2: load managers cannot be changed while brokers run",
                loadManagerMigrationEnabled=False,
            ),
            _keys(
                "deprecated: Pulsar itself does nothing with it",
                loadBalancerPlacementStrategy="leastLoadedServer",
                loadBalancerBrokerUnderloadedThresholdPercentage=50,
                loadBalancerBrokerComfortLoadLevelPercentage=65,
            ),
            _keys(
                "brokers enforce it; here only simulations use it",
                dispatchThrottlingRateInMsg=0,
                dispatchThrottlingRateInByte=0,
                dispatchThrottlingRatePerTopicInMsg=0,
                dispatchThrottlingRatePerTopicInByte=0,
                dispatchThrottlingRatePerSubscriptionInMsg=0,
                dispatchThrottlingRatePerSubscriptionInByte=0,
                dispatchThrottlingRatePerReplicatorInMsg=0,
                dispatchThrottlingRatePerReplicatorInByte=0,
                dispatchThrottlingOnNonBacklogConsumerEnabled=True,
                dispatchThrottlingOnBatchMessageEnabled=False,
                dispatchThrottlingForFilteredEntriesEnabled=False,
                preciseDispatcherFlowControl=False,
                dispatchRateLimiterFactoryClassName=f"{_PERSISTENT}.DispatchRateLimiterFactoryAsyncTokenBucket",
                dispatcherMaxReadBatchSize=100,
                dispatcherMinReadBatchSize=1,
                dispatcherMaxRoundRobinBatchSize=20,
                dispatcherMaxReadSizeBytes=5 * 1024 * 1024,
                managedLedgerCursorBackloggedThreshold=1000,
            ),
            _keys(
                "unused: Pulsar reads it only where it is forced to false; the field of "
                "policies works",
                dispatchThrottlingRateRelativeToPublishRate=False,
            ),
            _keys(
                "not a key of broker.conf, only a field of policies; the broker-wide rates "
                "are per second",
                ratePeriodInSecond="",
            ),
        )
        for key in keys
    }
)


def looks_like_ours(name: str) -> bool:
    """True if the name of a key or variable is like those of load balancing, in any case of
    letters.
    """
    name = name.lower().removeprefix(PREFIX.lower())
    begins = ("loadbalanc", "loadmanager", "dispatchthrottling")
    return name not in _KUBERNETES and (name.startswith(begins) or name.endswith("shedding"))


def is_unknown(name: str) -> bool:
    """True if a name that is no key of Pulsar's `ServiceConfiguration` is like one of load
    balancing: probably a misspelt one.
    """
    if name in SERVICE_CONFIGURATION:
        return False
    return looks_like_ours(name) or bool(get_close_matches(name, KEYS, 1, 0.9))


def class_name(name: str) -> str:
    """The last part of the name of a class."""
    return name.rpartition(".")[2]


def is_extensible(given: Mapping[str, Value]) -> bool:
    """True if a broker.conf selects the extensible load manager. `given`: its keys and values."""
    return str(given.get(LOAD_MANAGER, "")).endswith("ExtensibleLoadManagerImpl")


def counting_spelling(name: str, values: Mapping[str, Value]) -> str:
    """The key that sets this one: the newer of two spellings counts unless it is 1.0; the older
    counts then, unless it is 1.0 too.
    """
    old = BANDWIDTH_WEIGHTS.get(name)
    if old is not None and values.get(name, 1.0) == 1.0 and values.get(old, 1.0) != 1.0:
        return old
    return name


def overruled(name: str, values: Mapping[str, Value]) -> str:
    """Why the other spelling of a key counts; empty if this one does."""
    old, new = BANDWIDTH_WEIGHTS.get(name), OLD_SPELLING.get(name)
    if old is not None and values[name] == 1.0 and values.get(old, 1.0) != 1.0:
        return f"1.0 counts as not set, {old} is {values[old]}"
    if new is not None and values.get(new, 1.0) != 1.0:
        return f"{new} is the newer spelling and is {values[new]}"
    return ""

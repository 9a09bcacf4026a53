"""Limits of a bundle above which it is split, for both load managers.

Source of the rule: the checks at the start of `BundleSplitterTask` and
`DefaultNamespaceBundleSplitStrategyImpl` of Pulsar 4.2.4. All limits are strict: a bundle exactly
at its limit stays whole. A bundle of fewer than two topics is never split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from strategies.bundles import Floats, Ints
from strategies.cluster.model import MIB, BrokerLoad, Evidence
from strategies.settings import Setting

Algorithm = Literal[
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
]

#: The algorithm that cuts at given positions.
AT_POSITIONS: Algorithm = "specified_positions_divide"
#: Algorithms for which a round names the boundary itself: by the traffic of the bundle's topics.
BY_TRAFFIC = ("flow_or_qps_equally_divide", AT_POSITIONS)

#: Codes of the reasons, in the order in which they are checked.
REASONS = ("topics", "sessions", "msg-rate", "bandwidth")


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """When a bundle is split, and by which algorithm."""

    enabled: Annotated[
        bool,
        Setting(
            "Command splits; switch Pulsar's own off then "
            "(loadBalancerAutoBundleSplitEnabled), or both will split"
        ),
    ] = False
    algorithm: Annotated[
        Algorithm, Setting("Where a bundle is cut", pulsar="defaultNamespaceBundleSplitAlgorithm")
    ] = "range_equally_divide"
    max_topics: Annotated[
        int,
        Setting(
            "A bundle of more topics is split",
            "topics",
            "loadBalancerNamespaceBundleMaxTopics",
            ge=0,
            le=2**31 - 1,
        ),
    ] = 1000
    max_sessions: Annotated[
        int,
        Setting(
            "A bundle of more producers and consumers is split; 0 = no limit",
            "",
            "loadBalancerNamespaceBundleMaxSessions",
            ge=0,
            le=2**31 - 1,
        ),
    ] = 1000
    max_msg_rate: Annotated[
        int,
        Setting(
            "A bundle with more traffic is split",
            "messages/s",
            "loadBalancerNamespaceBundleMaxMsgRate",
            ge=0,
            le=2**31 - 1,
        ),
    ] = 30_000
    max_bandwidth_mib: Annotated[
        int,
        Setting(
            "A bundle with more traffic is split",
            "MiB/s",
            "loadBalancerNamespaceBundleMaxBandwidthMbytes",
            ge=0,
            le=2**31 - 1,
        ),
    ] = 100
    max_bundles: Annotated[
        int,
        Setting(
            "Number of bundles at which a namespace is not split any further",
            "",
            "loadBalancerNamespaceMaximumBundles",
            ge=0,
            le=2**31 - 1,
        ),
    ] = 128
    difference_percent: Annotated[
        int,
        Setting(
            "flow_or_qps_equally_divide: how far above a limit a bundle must be",
            "%",
            "flowOrQpsDifferenceThresholdPercentage",
            ge=0,
            le=100_000,
        ),
    ] = 10
    hit_count: Annotated[
        int,
        Setting(
            "Extensible load manager: a bundle is split when more than this number of scans "
            "in a row find it too big",
            "",
            "loadBalancerNamespaceBundleSplitConditionHitCountThreshold",
            ge=0,
            le=10_000,
        ),
    ] = 3
    max_splits: Annotated[
        int,
        Setting(
            "Extensible load manager: maximum number of splits per scan",
            "",
            "loadBalancerMaxNumberOfBundlesToSplitPerCycle",
            ge=1,
            le=10_000,
        ),
    ] = 10


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Sizes and traffic of bundles, columns of n rows. `rate` messages/s and `throughput` bytes/s,
    both in + out.
    """

    topics: Ints
    sessions: Ints
    rate: Floats
    throughput: Floats

    @classmethod
    def of_traffic(cls, topics: Ints, sessions: Ints, traffic: Floats) -> "Sizes":
        """Sizes with traffic float64[n, 4], columns as in BundleLoads."""
        with np.errstate(all="ignore"):
            rate_in, rate_out, throughput_in, throughput_out = traffic.T
            return cls(topics, sessions, rate_in + rate_out, throughput_in + throughput_out)

    def evidence(self, row: int) -> Evidence:
        """The figures of one bundle."""
        return {
            "topics": int(self.topics[row]),
            "sessions": int(self.sessions[row]),
            "msg_rate": float(self.rate[row]),
            "msg_throughput": float(self.throughput[row]),
        }


def bandwidth_limit(settings: SplitSettings) -> int:
    """The limit in bytes/s."""
    return int(settings.max_bandwidth_mib) * MIB


def java_bandwidth_limit(settings: SplitSettings) -> int:
    """The limit as Java computes it: in 32 bits, so 2048 MiB/s and more overflow (2048: −2^31,
    4096: 0).
    """
    return (bandwidth_limit(settings) + 2**31) % 2**32 - 2**31


def reasons(sizes: Sizes, settings: SplitSettings, bandwidth: int) -> Ints:
    """int64[n]: index into REASONS of the first limit that a bundle exceeds, −1 for a bundle that
    stays whole. `bandwidth`: the limit in bytes/s.
    """
    above = (
        sizes.topics > settings.max_topics,
        (settings.max_sessions > 0) & (sizes.sessions > settings.max_sessions),
        sizes.rate > settings.max_msg_rate,
        sizes.throughput > bandwidth,
    )
    found = np.select(above, range(len(REASONS)), default=-1)
    return np.where(sizes.topics < 2, -1, found).astype(np.int64)


def maybe_hot(
    brokers: Sequence[BrokerLoad], settings: SplitSettings, bandwidth: int
) -> list[BrokerLoad]:
    """Brokers that may have a hot bundle: some maximum of the table summary is above a limit, or
    there is no summary.
    """
    known = [broker.summary for broker in brokers if broker.summary is not None]
    rows = np.array(
        [(one.most_topics, one.most_sessions) for one in known], dtype=np.int64
    ).reshape(-1, 2)
    traffic = np.array(
        [(one.most_rate, one.most_throughput) for one in known], dtype=np.float64
    ).reshape(-1, 2)
    above = iter(
        (
            reasons(
                Sizes(rows[:, 0], rows[:, 1], traffic[:, 0], traffic[:, 1]), settings, bandwidth
            )
            >= 0
        ).tolist()
    )
    return [broker for broker in brokers if broker.summary is None or next(above)]


def excess(sizes: Sizes, settings: SplitSettings) -> Floats:
    """float64[n]: the largest ratio of a bundle's figures to their limits."""
    shares = [
        sizes.topics / max(settings.max_topics, 1),
        sizes.rate / max(settings.max_msg_rate, 1),
    ]
    shares.append(sizes.throughput / max(bandwidth_limit(settings), 1))
    if settings.max_sessions > 0:
        shares.append(sizes.sessions / settings.max_sessions)
    highest: Floats = np.max(np.stack(shares), axis=0)
    return highest


def reason_text(reason: str, sizes: Sizes, row: int, settings: SplitSettings) -> str:
    """Reason why a bundle is split, as the end of a sentence about it."""
    if reason == "topics":
        return f"holds {sizes.topics[row]} topics, more than {settings.max_topics}"
    if reason == "sessions":
        return (
            f"has {sizes.sessions[row]} producers and consumers, more than {settings.max_sessions}"
        )
    if reason == "msg-rate":
        return f"carries {sizes.rate[row]:.0f} messages/s, more than {settings.max_msg_rate}"
    throughput = sizes.throughput[row] / MIB
    return f"carries {throughput:.1f} MiB/s, more than {settings.max_bandwidth_mib}"

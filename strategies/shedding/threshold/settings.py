"""The settings of ThresholdShedder, and the part that its lower boundary sheds."""

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting

#: The part of the threshold that the fullest broker sheds when another one is far below the mean.
LOWER_MARGIN = 0.5


@dataclass(frozen=True, slots=True)
class ThresholdSettings:
    """Settings of ThresholdShedder, with Pulsar's defaults."""

    threshold_percent: Annotated[
        float,
        Setting(
            "How far above the cluster's mean usage a broker may be",
            "percentage points",
            "loadBalancerBrokerThresholdShedderPercentage",
            ge=0,
            le=100,
        ),
    ] = 10.0
    history: Annotated[
        float,
        Setting(
            "Weight of the past in a broker's averaged usage; 0 judges by the newest figures alone",
            "fraction",
            "loadBalancerHistoryResourcePercentage",
            ge=0,
            le=1,
        ),
    ] = 0.9
    min_throughput_mib: Annotated[
        float,
        Setting(
            "Minimum throughput that a broker sheds; a broker with less to shed is left alone",
            "MiB/s",
            "loadBalancerBundleUnloadMinThroughputThreshold",
            ge=0,
            le=1_000_000,
        ),
    ] = 10.0
    lower_boundary: Annotated[
        bool,
        Setting(
            "Also relieve the fullest broker when another one is further than the threshold "
            "below the mean",
            pulsar="lowerBoundarySheddingEnabled",
        ),
    ] = False

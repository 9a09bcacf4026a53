"""The settings of UniformLoadShedder."""

from dataclasses import dataclass
from typing import Annotated

from strategies.java.pulsar_versions_and_defaults import Imitated
from strategies.settings import Setting
from strategies.shedding.reason_texts import Metric


@dataclass(frozen=True, slots=True)
class UniformSettings:
    """Settings of UniformLoadShedder, with Pulsar's defaults."""

    rate_difference_percent: Annotated[
        float,
        Setting(
            "Maximum excess of the busiest broker's message rate over the idlest one's; 0 "
            "switches this test off",
            "percent",
            "loadBalancerMsgRateDifferenceShedderThreshold",
            ge=0,
            le=1_000_000,
        ),
    ] = 50.0
    throughput_ratio: Annotated[
        float,
        Setting(
            "Maximum ratio of the busiest broker's throughput to the idlest one's; 0 switches "
            "this test off",
            "",
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
            ge=0,
            le=1_000_000,
        ),
    ] = 4.0
    max_unload: Annotated[
        float,
        Setting(
            "The part of the difference that moves in one round",
            "fraction",
            "maxUnloadPercentage",
            ge=0,
            le=1,
        ),
    ] = 0.2
    min_msg_rate: Annotated[
        float,
        Setting(
            "Minimum message rate that is worth moving",
            "msg/s",
            "minUnloadMessage",
            ge=0,
            le=2_147_483_647,
        ),
    ] = 1000.0
    min_throughput: Annotated[
        float,
        Setting(
            "Minimum throughput that is worth moving",
            "bytes/s",
            "minUnloadMessageThroughput",
            ge=0,
            le=2_147_483_647,
        ),
    ] = 1_048_576.0
    max_bundles: Annotated[
        int,
        Setting(
            "Maximum number of bundles that move in one round; -1 = no limit",
            "",
            "maxUnloadBundleNumPerShedding",
            ge=-1,
            le=1_000_000,
        ),
    ] = -1
    pulsar_version: Imitated = "4.2"

    def minimum(self, metric: Metric) -> float:
        """Minimum that is worth moving, in the metric's unit."""
        return self.min_msg_rate if metric == "msg_rate" else self.min_throughput

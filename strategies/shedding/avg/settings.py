"""The settings of AvgShedder."""

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


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

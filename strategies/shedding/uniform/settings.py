"""The common parts of both forms of UniformLoadShedder: settings, the two measures, and texts of
reasons.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder` of Pulsar 4.2.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad, Decision, Evidence, Skip
from strategies.java.pulsar_versions_and_defaults import Imitated
from strategies.settings import Setting
from strategies.shedding.reason_texts import SHOWN, Metric, setting

_MINIMUM: Mapping[Metric, str] = MappingProxyType(
    {"msg_rate": "min_msg_rate", "msg_throughput": "min_throughput"}
)
_UNIT: Mapping[Metric, str] = MappingProxyType({"msg_rate": "msg/s", "msg_throughput": "bytes/s"})


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


@dataclass(frozen=True, slots=True)
class Gap:
    """The two brokers furthest apart by one measure. `need`: amount to move, in the metric's
    unit.
    """

    metric: Metric
    busiest: str
    idlest: str
    most: float
    least: float
    need: float

    @property
    def evidence(self) -> Evidence:
        return {
            "metric": self.metric,
            "most": self.most,
            "least": self.least,
            "idlest": self.idlest,
            "need": self.need,
        }

    @property
    def why(self) -> str:
        """The comparison as text."""
        shown = SHOWN[self.metric]
        return f"carries {shown(self.most)}, {self.idlest or 'no broker'} {shown(self.least)}"

    @property
    def rest(self) -> str:
        """Reason why the other bundles stay."""
        return f"it does not fit into what was left of the {SHOWN[self.metric](self.need)} to move"

    def decision(self, bundle: str, load: float) -> Decision:
        """Decision that the bundle leaves; placement names the destination, which may be another
        broker than the idlest one.
        """
        shown, other = SHOWN[self.metric], "the idlest" if self.idlest else "no"
        leaving = (
            f"{shown(load)} of the {shown(self.need)} to move leave with this bundle for a broker "
            "that placement picks"
        )
        code = "rate-uneven" if self.metric == "msg_rate" else "throughput-uneven"
        return Decision(
            bundle,
            self.busiest,
            None,
            code,
            f"{self.busiest} carries {shown(self.most)}, {other} broker {shown(self.least)}: "
            f"{leaving}",
            {**self.evidence, "bundle_load": load},
        )


def totals(metric: Metric, brokers: Sequence[BrokerLoad]) -> Floats:
    """float64[n]: the brokers' traffic, in + out, by this measure. Infinities that cancel out cause
    no warnings.
    """
    traffic = [broker.figures.traffic for broker in brokers]
    if metric == "msg_rate":
        parts = [one.msg_rate_in for one in traffic], [one.msg_rate_out for one in traffic]
    else:
        parts = (
            [one.msg_throughput_in for one in traffic],
            [one.msg_throughput_out for one in traffic],
        )
    with np.errstate(all="ignore"):
        arriving, leaving = np.array(parts, dtype=np.float64)
        total: Floats = arriving + leaving
        return total


def even(cluster: str, settings: UniformSettings) -> Skip:
    """Skip of a cluster that is even by both measures."""
    rate = setting("shedding.uniform.rate_difference_percent", settings.rate_difference_percent)
    limits = (
        f"{rate} % in message rate and "
        f"{setting('shedding.uniform.throughput_ratio', settings.throughput_ratio)} times in "
        "throughput"
    )
    return Skip(
        "cluster", (cluster,), "even", f"busiest and idlest broker are within the limits, {limits}"
    )


def too_little(gap: Gap, minimum: float) -> Skip:
    """Skip of a broker with so little to shed that it is not worth an interruption."""
    shown = SHOWN[gap.metric]
    least = setting(f"shedding.uniform.{_MINIMUM[gap.metric]}", minimum)
    text = (
        f"it {gap.why}, but {shown(gap.need)} would have to move, less than {least} "
        f"{_UNIT[gap.metric]}"
    )
    return Skip("broker", (gap.busiest,), "too-little-traffic", text, None, gap.evidence)


def nothing_fits(gap: Gap, settings: UniformSettings) -> Skip:
    """Skip of a broker that is due but has no bundle that is small enough."""
    share = f"({setting('shedding.uniform.max_unload', settings.max_unload)} of the difference)"
    text = (
        f"it {gap.why}, but none of its bundles that may move fits into the "
        f"{SHOWN[gap.metric](gap.need)} to move {share}"
    )
    return Skip("broker", (gap.busiest,), "nothing-fits", text, None, gap.evidence)


def not_the_busiest(brokers: tuple[str, ...]) -> Skip:
    """Skip of all other brokers, as one broker sheds per round."""
    return Skip(
        "broker",
        brokers,
        "not-the-busiest",
        "one broker gives per round, and another one is the busiest",
    )

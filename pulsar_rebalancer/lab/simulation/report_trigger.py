"""Trigger of load reports in the modular load manager (Pulsar 4.2.4:
`ModularLoadManagerImpl.needBrokerDataUpdate`).

Between two writes the leader uses the older report. `rebalancer collect` requests reports from
brokers, which always return current ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Annotated

from strategies.cluster.model import Traffic
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class Reported:
    """The compared figures of a report; `usage`: the weighted maximum as a fraction."""

    traffic: Traffic = Traffic()
    bundles: int = 0
    usage: float = 0.0


@dataclass(frozen=True, slots=True)
class ReportTrigger:
    """Limits of change and age; a report is written when one is exceeded."""

    threshold_percent: Annotated[
        float,
        Setting(
            "Minimum change for a new report",
            "%",
            "loadBalancerReportUpdateThresholdPercentage",
            ge=0,
            le=100,
        ),
    ] = 10
    max_interval_ms: Annotated[
        int,
        Setting(
            "Maximum age of a report",
            "ms",
            "loadBalancerReportUpdateMaxIntervalMinutes",
            ge=0,
            le=86_400_000,
        ),
    ] = 900_000

    def writes(self, written: Reported, now: Reported, age_ms: int) -> bool:
        """Whether a broker writes a new report: `now` differs enough from `written`, or `written`,
        `age_ms` old, is too old.
        """
        return age_ms > self.max_interval_ms or max(_changes(written, now)) > self.threshold_percent


def _changes(written: Reported, now: Reported) -> Iterator[float]:
    """Changes in percent of the older figure; of usage in points, so that 50 % and 60 % differ by
    10.
    """
    yield _percent(written.traffic.msg_rate, now.traffic.msg_rate)
    yield _percent(written.traffic.msg_throughput, now.traffic.msg_throughput)
    yield _percent(written.bundles, now.bundles)
    yield 100.0 * abs(now.usage - written.usage)


def _percent(old: float, new: float) -> float:
    if old == 0:
        return 0.0 if new == 0 else inf
    return 100.0 * abs(old - new) / old

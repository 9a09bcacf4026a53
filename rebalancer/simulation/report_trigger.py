"""When a broker of the modular load manager writes its load report again (Pulsar 4.2.4: `ModularLoadManagerImpl.needBrokerDataUpdate`).

Between two writes the leader works with the older one. `rebalancer collect` does not: it asks brokers, whose answers are always current.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Annotated

from strategies.model import Traffic
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class Reported:
    """What is compared of a report; `usage`: the weighted maximum as a fraction."""

    traffic: Traffic = Traffic()
    bundles: int = 0
    usage: float = 0.0


@dataclass(frozen=True, slots=True)
class ReportTrigger:
    """Both limits are strict."""

    threshold_percent: Annotated[
        float, Setting("A change that is worth a report", "%", "loadBalancerReportUpdateThresholdPercentage", ge=0, le=100)
    ] = 10
    max_interval_ms: Annotated[
        int, Setting("An older report is written again", "ms", "loadBalancerReportUpdateMaxIntervalMinutes", ge=0, le=86_400_000)
    ] = 900_000

    def writes(self, written: Reported, now: Reported, age_ms: int) -> bool:
        """Whether a broker writes again: `now` differs enough from `written`, which is `age_ms` old."""
        return age_ms > self.max_interval_ms or max(_changes(written, now)) > self.threshold_percent


def _changes(written: Reported, now: Reported) -> Iterator[float]:
    """Percent of the older figure; of usage points, so that 50 % and 60 % are 10 apart."""
    yield _percent(written.traffic.msg_rate, now.traffic.msg_rate)
    yield _percent(written.traffic.msg_throughput, now.traffic.msg_throughput)
    yield _percent(written.bundles, now.bundles)
    yield 100.0 * abs(now.usage - written.usage)


def _percent(old: float, new: float) -> float:
    if old == 0:
        return 0.0 if new == 0 else inf
    return 100.0 * abs(old - new) / old

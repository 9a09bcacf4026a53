"""The common parts of both forms of OverloadShedder: settings and texts of reasons.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.OverloadShedder` of Pulsar 4.2.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from strategies.cluster.model import Evidence, Skip
from strategies.java.pulsar_versions_and_defaults import Imitated
from strategies.settings import Setting
from strategies.shedding.reason_texts import broker_skips, mib, points, setting
from strategies.shedding.relief import SheddingReason


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    """Settings of OverloadShedder, with Pulsar's defaults."""

    threshold_percent: Annotated[
        float,
        Setting(
            "Usage at which a broker counts as overloaded",
            "percent",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=0,
            le=100,
        ),
    ] = 85.0
    pulsar_version: Imitated = "4.2"


def overloaded(usage: float, minimum: float, settings: OverloadSettings) -> SheddingReason:
    """Reason of a broker at or above the threshold."""
    why = f"is at {points(usage)}, and {settings.threshold_percent:g} % counts as overloaded"
    evidence: Evidence = {
        "usage": usage,
        "threshold_percent": settings.threshold_percent,
        "to_shed": minimum,
    }
    return SheddingReason("overloaded", why, minimum, evidence)


def not_overloaded(
    brokers: Sequence[str], usages: Sequence[float], settings: OverloadSettings
) -> list[Skip]:
    """Skips of brokers below the threshold."""
    bar = (
        f"{setting('shedding.overload.threshold_percent', settings.threshold_percent)} %, which "
        "counts as overloaded"
    )
    return broker_skips(
        "not-overloaded",
        brokers,
        lambda index: f"its usage {points(usages[index])} is below {bar}",
        lambda: (
            f"{len(brokers):,} brokers are between {points(min(usages))} and "
            f"{points(max(usages))}, below {bar}"
        ),
        {"threshold_percent": settings.threshold_percent},
    )


def nothing_to_shed(broker: str, usage: float, minimum: float) -> Skip:
    """Skip of an overloaded broker without traffic, which moving bundles would not relieve."""
    text = (
        f"it is overloaded at {points(usage)}, but reports {mib(minimum)} to shed: its load does "
        "not come from its bundles"
    )
    return Skip(
        "broker", (broker,), "too-little-traffic", text, None, {"usage": usage, "to_shed": minimum}
    )

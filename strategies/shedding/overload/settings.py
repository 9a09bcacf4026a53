"""The settings of OverloadShedder."""

from dataclasses import dataclass
from typing import Annotated

from strategies.java.pulsar_versions_and_defaults import Imitated
from strategies.settings import Setting


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

"""The rules and settings by which destinations are named."""

from dataclasses import dataclass
from typing import Annotated

from strategies.filters.pipeline import Filters
from strategies.placement.contract import Placer
from strategies.settings import Setting, Weights


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """Limit above which a destination is too full, for every placement."""

    overloaded_percent: Annotated[
        float,
        Setting(
            "A broker that is or would be fuller than this takes a bundle only if no other "
            "broker is below this limit",
            "%",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=0,
            le=100_000,
        ),
    ] = 85.0


@dataclass(frozen=True)
class DestinationRules:
    """Rules that name destinations. `placer`: None if Pulsar places bundles that leave without a
    destination.

    `balances_usage`: the shedding rule balances usage, so a move must not just shift the peak; a
    rule that balances traffic may do so. `drain_placer`: of bundles
    that leave draining brokers; None leaves them to Pulsar.
    """

    placer: Placer | None
    filters: Filters
    settings: DestinationSettings
    weights: Weights
    balances_usage: bool = True
    drain_placer: Placer | None = None

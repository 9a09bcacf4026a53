"""The registry of all placements by name."""

from __future__ import annotations

from strategies.java.release_defaults import RELEASES, PulsarRelease
from strategies.placement.avg import (
    AvgPlacement,
    AvgPlacementSettings,
    ParityAvgPlacement,
    ParityAvgPlacement50,
)
from strategies.placement.contract import PlacementStrategy, Placer
from strategies.placement.least_long_term_rate import (
    LeastLongTermRate,
    LeastLongTermRateSettings,
    ParityLeastLongTermRate,
)
from strategies.placement.least_resource_usage import (
    ExtensibleLeastResourceUsage,
    LeastResourceUsage,
    LeastResourceUsageSettings,
    ParityExtensibleLeastResourceUsage,
    ParityLeastResourceUsage,
)
from strategies.placement.round_robin import ParityRoundRobin, RoundRobin, RoundRobinSettings
from strategies.registry import Registry
from strategies.settings import Mode

_PACKAGE = "org.apache.pulsar.broker.loadbalance"

PLACERS: Registry[PlacementStrategy] = Registry(
    "placement",
    PlacementStrategy(
        "least_long_term_rate",
        f"{_PACKAGE}.impl.LeastLongTermMessageRate",
        "The broker with the lowest long-term message rate that is not overloaded.",
        LeastLongTermRateSettings,
        LeastLongTermRate,
        ParityLeastLongTermRate,
    ),
    PlacementStrategy(
        "least_resource_usage",
        f"{_PACKAGE}.impl.LeastResourceUsageWithWeight",
        "A broker whose usage, averaged over time, is well below the mean.",
        LeastResourceUsageSettings,
        LeastResourceUsage,
        ParityLeastResourceUsage,
        remembers=True,
    ),
    PlacementStrategy(
        "least_resource_usage_extensible",
        f"{_PACKAGE}.extensions.strategy.LeastResourceUsageWithWeight",
        "The same on the averages that the extensible load manager keeps.",
        LeastResourceUsageSettings,
        ExtensibleLeastResourceUsage,
        ParityExtensibleLeastResourceUsage,
        remembers=True,
    ),
    PlacementStrategy(
        "round_robin",
        f"{_PACKAGE}.impl.RoundRobinBrokerSelector",
        "One broker after the other, whatever their load.",
        RoundRobinSettings,
        lambda _: RoundRobin(),
        lambda _: ParityRoundRobin(),
        remembers=True,
    ),
    PlacementStrategy(
        "avg",
        f"{_PACKAGE}.impl.AvgShedder",
        "The broker that AvgShedder planned when it picked the bundle.",
        AvgPlacementSettings,
        AvgPlacement,
        lambda _: ParityAvgPlacement(),
        parity_in={"5.0": ParityAvgPlacement50},
    ),
)


def placer(
    name: str, settings: object | None, mode: Mode, release: PulsarRelease = RELEASES[0]
) -> Placer:
    """The placement called `name`; `settings` None means its defaults; `release`: whose rule parity
    mode follows. Raises SettingsError for a name or settings that do not fit.
    """
    return PLACERS.named(name).build(PLACERS.settings_of(name, settings), mode, release)

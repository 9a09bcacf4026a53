"""All placements by name: the only place that knows which there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from strategies.errors import SettingsError
from strategies.placement.avg import AvgPlacement, AvgPlacementSettings, ParityAvgPlacement
from strategies.placement.contract import Placer
from strategies.placement.least_long_term_rate import LeastLongTermRate, LeastLongTermRateSettings, ParityLeastLongTermRate
from strategies.placement.least_resource_usage import LeastResourceUsage, LeastResourceUsageSettings, ParityLeastResourceUsage
from strategies.placement.least_resource_usage_extensible import ExtensibleLeastResourceUsage, ParityExtensibleLeastResourceUsage
from strategies.placement.round_robin import ParityRoundRobin, RoundRobin, RoundRobinSettings
from strategies.settings import Mode


@dataclass(frozen=True, slots=True)
class Entry:
    """A placement: its name, the class of Pulsar it comes from, a sentence, its settings class, and how to build it."""

    name: str
    pulsar_class: str
    summary: str
    settings: type
    build: Callable[[Any, Mode], Placer]


def _least_long_term_rate(settings: LeastLongTermRateSettings, mode: Mode) -> Placer:
    return ParityLeastLongTermRate(settings) if mode == "parity" else LeastLongTermRate(settings)


def _least_resource_usage(settings: LeastResourceUsageSettings, mode: Mode) -> Placer:
    return ParityLeastResourceUsage(settings) if mode == "parity" else LeastResourceUsage(settings)


def _extensible(settings: LeastResourceUsageSettings, mode: Mode) -> Placer:
    return ParityExtensibleLeastResourceUsage(settings) if mode == "parity" else ExtensibleLeastResourceUsage(settings)


def _round_robin(settings: RoundRobinSettings, mode: Mode) -> Placer:
    return ParityRoundRobin() if mode == "parity" else RoundRobin()


def _avg(settings: AvgPlacementSettings, mode: Mode) -> Placer:
    return ParityAvgPlacement() if mode == "parity" else AvgPlacement(settings)


_PACKAGE = "org.apache.pulsar.broker.loadbalance"

PLACERS: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Entry(
                "least_long_term_rate",
                f"{_PACKAGE}.impl.LeastLongTermMessageRate",
                "The broker with the lowest long-term message rate that is not overloaded.",
                LeastLongTermRateSettings,
                _least_long_term_rate,
            ),
            Entry(
                "least_resource_usage",
                f"{_PACKAGE}.impl.LeastResourceUsageWithWeight",
                "A broker whose usage, averaged over time, is well below the mean.",
                LeastResourceUsageSettings,
                _least_resource_usage,
            ),
            Entry(
                "least_resource_usage_extensible",
                f"{_PACKAGE}.extensions.strategy.LeastResourceUsageWithWeight",
                "The same on the averages that the extensible load manager keeps.",
                LeastResourceUsageSettings,
                _extensible,
            ),
            Entry(
                "round_robin",
                f"{_PACKAGE}.impl.RoundRobinBrokerSelector",
                "One broker after the other, whatever their load.",
                RoundRobinSettings,
                _round_robin,
            ),
            Entry(
                "avg",
                f"{_PACKAGE}.impl.AvgShedder",
                "The broker that AvgShedder planned when it picked the bundle.",
                AvgPlacementSettings,
                _avg,
            ),
        )
    }
)


def placer(name: str, settings: object | None, mode: Mode) -> Placer:
    """The placement called `name`; `settings` None means its defaults. Raises SettingsError for a name or settings that do not fit."""
    entry = PLACERS.get(name)
    if entry is None:
        raise SettingsError([f"placement.strategy: {name!r} is not known; choose one of {', '.join(PLACERS)}"])
    chosen = entry.settings() if settings is None else settings
    if not isinstance(chosen, entry.settings):
        raise SettingsError([f"placement.{name}: settings of {type(chosen).__name__} belong to another placement"])
    return entry.build(chosen, mode)

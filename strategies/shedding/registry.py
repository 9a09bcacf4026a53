"""All shedding strategies by name: the only place that knows which there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from strategies.errors import SettingsError
from strategies.settings import Mode, Weights
from strategies.shedding.avg.fixed import AvgShedder
from strategies.shedding.avg.parity import ParityAvgShedder
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.contract import Shedder
from strategies.shedding.overload.fixed import OverloadShedder
from strategies.shedding.overload.parity import ParityOverloadShedder
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.threshold.fixed import ThresholdShedder
from strategies.shedding.threshold.parity import ParityThresholdShedder
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.live import LiveTransferShedder
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.uniform.fixed import UniformLoadShedder
from strategies.shedding.uniform.parity import ParityUniformLoadShedder
from strategies.shedding.uniform.settings import UniformSettings


@dataclass(frozen=True, slots=True)
class Entry:
    """A strategy: its name, the class of Pulsar it comes from, a sentence, its settings class, and how to build it.

    `placement`: the one that Pulsar's users run beside it; `load_manager`: the one it belongs to; `balances`: what it evens out.
    """

    name: str
    pulsar_class: str
    summary: str
    settings: type
    build: Callable[[Any, Weights, Mode], Shedder]
    placement: str = "least_long_term_rate"
    load_manager: Literal["modular", "extensible"] = "modular"
    balances: Literal["usage", "traffic"] = "usage"


def _threshold(settings: ThresholdSettings, weights: Weights, mode: Mode) -> Shedder:
    return ParityThresholdShedder(settings, weights) if mode == "parity" else ThresholdShedder(settings, weights)


def _avg(settings: AvgSettings, weights: Weights, mode: Mode) -> Shedder:
    return ParityAvgShedder(settings, weights) if mode == "parity" else AvgShedder(settings, weights)


def _overload(settings: OverloadSettings, weights: Weights, mode: Mode) -> Shedder:
    return ParityOverloadShedder(settings, weights) if mode == "parity" else OverloadShedder(settings, weights)


def _uniform(settings: UniformSettings, weights: Weights, mode: Mode) -> Shedder:
    return ParityUniformLoadShedder(settings, weights) if mode == "parity" else UniformLoadShedder(settings, weights)


def _transfer(settings: TransferSettings, weights: Weights, mode: Mode) -> Shedder:
    return LiveTransferShedder(settings, weights, mode)


_PACKAGE = "org.apache.pulsar.broker.loadbalance.impl"

SHEDDERS: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Entry(
                "threshold",
                f"{_PACKAGE}.ThresholdShedder",
                "Brokers too far above the mean usage, averaged over time, let their heaviest bundles go.",
                ThresholdSettings,
                _threshold,
            ),
            Entry(
                "avg",
                f"{_PACKAGE}.AvgShedder",
                "The fullest broker is paired with the emptiest and hands part of the difference over once they were apart for long.",
                AvgSettings,
                _avg,
                placement="avg",
            ),
            Entry(
                "overload",
                f"{_PACKAGE}.OverloadShedder",
                "Brokers above a fixed usage let their heaviest bundles go.",
                OverloadSettings,
                _overload,
            ),
            Entry(
                "uniform",
                f"{_PACKAGE}.UniformLoadShedder",
                "The broker with most traffic gives a part of its lead over the one with least.",
                UniformSettings,
                _uniform,
                balances="traffic",
            ),
            Entry(
                "transfer",
                "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder",
                "When usage is spread too far for long enough, the fullest brokers give bundles to the emptiest, or swap with them.",
                TransferSettings,
                _transfer,
                placement="least_resource_usage_extensible",
                load_manager="extensible",
            ),
        )
    }
)


def entry_of(name: str) -> Entry:
    """What is known of a strategy. Raises SettingsError for a name nobody knows."""
    entry = SHEDDERS.get(name)
    if entry is None:
        raise SettingsError([f"shedding.strategy: {name!r} is not known; choose one of {', '.join(SHEDDERS)}"])
    return entry


def shedder(name: str, settings: object | None, weights: Weights, mode: Mode) -> Shedder:
    """The strategy called `name`; `settings` None means its defaults. Raises SettingsError for a name or settings that do not fit."""
    entry = entry_of(name)
    chosen = entry.settings() if settings is None else settings
    if not isinstance(chosen, entry.settings):
        raise SettingsError([f"shedding.{name}: settings of {type(chosen).__name__} belong to another strategy"])
    return entry.build(chosen, weights, mode)

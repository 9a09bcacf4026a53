"""The shedding strategy and the placement that a broker.conf leads to, as the load manager of a
Pulsar release pairs them at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_rebalancer.settings.broker_conf.keys import (
    KEYS,
    LOAD_MANAGER,
    PLACEMENT,
    SHEDDING,
    Value,
)
from strategies.java.release_defaults import PulsarRelease
from strategies.placement.registry import PLACERS, pulsars_own
from strategies.shedding.registry import EXTENSIBLE

#: Classes that both shed and place.
_BOTH = frozenset(entry.pulsar_class for entry in PLACERS.values() if entry.sheds)


@dataclass(frozen=True, slots=True)
class StrategyPair:
    """The classes that shed and place. `starts`: whether the load manager starts with them;
    `remark`: what differs from the two keys, as a sentence, or empty.
    """

    shedding: str
    placement: str
    starts: bool = True
    remark: str = ""


def is_extensible(given: Mapping[str, Value]) -> bool:
    """True if a broker.conf selects the extensible load manager. `given`: its keys and values."""
    return str(given.get(LOAD_MANAGER, "")).endswith("ExtensibleLoadManagerImpl")


def pair_in(release: PulsarRelease, given: Mapping[str, Value]) -> StrategyPair:
    """The pair in a release, with its defaults for keys that are not given."""
    if is_extensible(given):
        return _extensible(given)
    sheds, places = (
        str(given.get(key, KEYS[key].default_in(release))) for key in (SHEDDING, PLACEMENT)
    )
    if places in _BOTH and places != sheds:
        return _replaced(release, sheds, places)
    if sheds in _BOTH and places != sheds:
        text = (
            f"{class_name(sheds)} sheds and {class_name(places)} places: the destinations that "
            f"{class_name(sheds)} plans are not used"
        )
        return StrategyPair(sheds, places, remark=text)
    return StrategyPair(sheds, places)


def _replaced(release: PulsarRelease, sheds: str, places: str) -> StrategyPair:
    """A placement that sheds too, beside another shedding strategy."""
    only = f"{class_name(places)} places only where it sheds too, and {class_name(sheds)} sheds"
    if release == "4.2":
        return StrategyPair(sheds, places, False, f"{only}: the load manager does not start")
    instead = PLACERS[pulsars_own("4.2")].pulsar_class
    return StrategyPair(sheds, instead, remark=f"{only}: {class_name(instead)} places instead")


def _extensible(given: Mapping[str, Value]) -> StrategyPair:
    wanted = str(given.get(SHEDDING, EXTENSIBLE.pulsar_class))
    kept = EXTENSIBLE.java_class in wanted
    sheds = class_name(EXTENSIBLE.pulsar_class)
    remark = f"{class_name(wanted)} is for the modular load manager: {sheds} sheds"
    return StrategyPair(
        EXTENSIBLE.pulsar_class,
        PLACERS["least_resource_usage_extensible"].pulsar_class,
        remark="" if kept else remark,
    )


def class_name(name: str) -> str:
    """The last part of the name of a class."""
    return name.rpartition(".")[2]

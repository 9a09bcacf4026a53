"""The Pulsar releases whose rules and defaults `pulsar.version` selects, and the broker.conf keys
whose defaults differ between them.

A key that is not in the table has the same default in both. Sources: pull requests 26609 and 26610
of Apache Pulsar and its upgrade notes for 5.0, compared with the classes of 4.2.4 and 5.0.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from strategies.settings import Setting

#: A Pulsar release line whose defaults and rules are known; each name means its newest patch
#: release.
PulsarRelease = Literal["4.2", "5.0"]
#: Oldest first.
RELEASES: tuple[PulsarRelease, ...] = get_args(PulsarRelease)

#: Path of the setting that selects the release.
PULSAR_VERSION = "pulsar.version"

_T = TypeVar("_T")
_MODULAR = "org.apache.pulsar.broker.loadbalance.impl"


@dataclass(frozen=True, slots=True)
class ReleaseDefault:
    """A broker.conf key with a default per release; None for a release that does not know the key.
    `source`: where Pulsar says so.

    `followed`: our settings that mirror the key take the value of 5.0; with "4.2" they have the
    default of their class. False for keys that name a strategy: our own default stays.
    """

    key: str
    values: Mapping[PulsarRelease, Any]
    source: str
    followed: bool = True


def _differs(key: str, before: Any, after: Any, source: str, **more: bool) -> ReleaseDefault:
    return ReleaseDefault(key, MappingProxyType({"4.2": before, "5.0": after}), source, **more)


#: broker.conf key → its defaults, for all load-balancing and dispatching keys that differ.
RELEASE_DEFAULTS: Mapping[str, ReleaseDefault] = MappingProxyType(
    {
        one.key: one
        for one in (
            _differs(
                "loadBalancerLoadSheddingStrategy",
                f"{_MODULAR}.ThresholdShedder",
                f"{_MODULAR}.AvgShedder",
                "#26609",
                followed=False,
            ),
            _differs(
                "loadBalancerLoadPlacementStrategy",
                f"{_MODULAR}.LeastLongTermMessageRate",
                f"{_MODULAR}.AvgShedder",
                "#26609",
                followed=False,
            ),
            _differs("maxUnloadPercentage", 0.2, 0.5, "#26609"),
            _differs("loadBalancerDistributeBundlesEvenlyEnabled", True, False, "#26609"),
            _differs("defaultNumberOfNamespaceBundles", 4, 32, "#26610"),
            _differs("defaultNumberOfSystemNamespaceBundles", None, 64, "#26610"),
            _differs("loadManagerMigrationEnabled", None, False, "classes of 5.0.0-M1"),
            _differs("dispatcherMaxReadBatchSize", 100, 500, "upgrade notes for 5.0"),
            _differs(
                "dispatcherDispatchMessagesInSubscriptionThread",
                True,
                False,
                "upgrade notes for 5.0",
            ),
        )
    }
)

#: The key that spreads bundles by number.
EVENLY = RELEASE_DEFAULTS["loadBalancerDistributeBundlesEvenlyEnabled"]


def matches_ids(release: PulsarRelease) -> bool:
    """Whether isolation policies name brokers by id besides host."""
    return release != "4.2"


def follows_release(setting: Setting) -> bool:
    """Whether the default of a setting depends on the release."""
    return setting.pulsar is not None and _followed(setting.pulsar) is not None


def default_in(release: PulsarRelease, setting: Setting, default: _T) -> _T:
    """The default of a setting in a release. `default`: the one of its class."""
    found = None if setting.pulsar is None else _followed(setting.pulsar)
    if release == "4.2" or found is None:
        return default
    value: _T = found.values[release]
    return value


def defaults_in(release: PulsarRelease, settings: type[_T]) -> _T:
    """A settings class with the defaults of a release."""
    made = settings()
    given = {
        name: default_in(release, mark, getattr(made, name))
        for name, hint in get_type_hints(settings, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Setting)
    }
    return dataclasses.replace(made, **given) if given else made  # type: ignore[type-var]


def _followed(key: str) -> ReleaseDefault | None:
    found = RELEASE_DEFAULTS.get(key)
    return found if found is not None and found.followed else None

"""Converts the broker.conf keys of a case to our settings, through the Pulsar key of each
setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from strategies.errors import SettingsError
from strategies.java.release_defaults import RELEASES, PulsarRelease, defaults_in
from strategies.settings import Setting, Weights

_T = TypeVar("_T")
_BANDWIDTH = ("loadBalancerBandwidthInResourceWeight", "loadBalancerBandwidthOutResourceWeight")


def settings_of(cls: type[_T], conf: Mapping[str, Any], release: PulsarRelease = RELEASES[0]) -> _T:
    """Settings of a dataclass from Pulsar's keys; keys that are not named have their default in
    this release, keys of others are ignored.

    Raises SettingsError for a value that is neither a number nor a truth value nor a list of names.
    """
    given = dict[str, Any]()
    for name, hint in get_type_hints(cls, include_extras=True).items():
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Setting) and mark.pulsar is not None and mark.pulsar in conf:
                given[name] = _plain(mark.pulsar, conf[mark.pulsar])
    return dataclasses.replace(defaults_in(release, cls), **given)  # type: ignore[type-var]


def weights_of(conf: Mapping[str, Any]) -> Weights:
    """Resource weights. The newer of the two spellings of the bandwidth keys counts unless it is
    1.0, as in Pulsar.
    """
    resolved = dict(conf)
    for key in _BANDWIDTH:
        old = conf.get(key.replace("Bandwidth", "Bandwith"), 1.0)
        if conf.get(key, 1.0) == 1.0 and old != 1.0:
            resolved[key] = old
    weights = settings_of(Weights, resolved)
    return dataclasses.replace(
        weights,
        **{
            field.name: float(getattr(weights, field.name)) for field in dataclasses.fields(weights)
        },
    )


def _plain(key: str, value: Any) -> float | bool | str:
    """The value as a settings class takes it; a list of names as the text it is in broker.conf."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, int | float):
        return value
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise SettingsError([f"conf.{key}: {value!r} is neither a number nor true or false"])

"""The settings with which a back-test decides as the load manager of a Pulsar release would, with a
given broker.conf or with none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pulsar_rebalancer.settings.broker_conf.convert import Conversion, convert_lines
from pulsar_rebalancer.settings.broker_conf.keys import LOAD_MANAGER, PLACEMENT, SHEDDING
from pulsar_rebalancer.settings.broker_conf.properties import Property
from pulsar_rebalancer.settings.broker_conf.strategy_pair import class_name, is_extensible, pair_in
from pulsar_rebalancer.settings.leaves import all_leaves
from pulsar_rebalancer.settings.load import Settings, resolved
from pulsar_rebalancer.settings.sources import Assignment, from_flags
from strategies.errors import SettingsError
from strategies.java.pulsar_releases import PULSAR_VERSION, PulsarRelease

_EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
_MANAGERS = ("ModularLoadManagerImpl", class_name(_EXTENSIBLE))
#: Settings that the extensible load manager has no key for: it always places in its own way.
_MODULAR_ONLY = frozenset({"placement.strategy", "filters.distribute_evenly"})


def defaults_of(release: PulsarRelease, *, extensible: bool) -> Conversion:
    """What a broker.conf without a line leads to. `extensible`: it selects that load manager."""
    lines = [Property(LOAD_MANAGER, _EXTENSIBLE, 0)] if extensible else []
    return convert_lines(Path(f"defaults of Pulsar {release}"), lines, release)


def as_pulsar(
    conversion: Conversion, release: PulsarRelease, flags: Sequence[str] = ()
) -> Settings:
    """The settings in parity mode. `flags`: `path=value`, over all others. Raises SettingsError for
    strategies that are not known here or do not start, and for bad flags.
    """
    _refuse_unknown(conversion)
    pair = pair_in(release, conversion.given)
    if not pair.starts:
        raise SettingsError(
            [
                f"with this broker.conf, Pulsar {release} does not run: {pair.remark}; name "
                f"another class in {PLACEMENT} or {SHEDDING}"
            ]
        )
    skipped = _MODULAR_ONLY if is_extensible(conversion.given) else frozenset[str]()
    given = [
        Assignment(path, value, "file", conversion.origins[path])
        for path, value in conversion.settings.items()
        if path not in skipped
    ]
    given += [
        Assignment(PULSAR_VERSION, release, "file", "the version to preview"),
        Assignment("shedding.mode", "parity", "file", "the preview decides as Pulsar does"),
    ]
    more, complaints = from_flags(flags, all_leaves())
    return resolved([*given, *more], complaints)


def _refuse_unknown(conversion: Conversion) -> None:
    """Raises SettingsError for a class that is not known here: its decisions cannot be computed."""
    unknown = [
        f"{one.key.name}, line {one.line}: {one.why}; what it would do cannot be previewed"
        for one in conversion.keys
        if one.key.name in (SHEDDING, PLACEMENT) and one.result == "no effect"
    ]
    manager = str(conversion.given.get(LOAD_MANAGER, _EXTENSIBLE))
    if class_name(manager) not in _MANAGERS:
        unknown.append(
            f"{LOAD_MANAGER}: {manager} is unknown; known are {' and '.join(_MANAGERS)}; what it "
            "would do cannot be previewed"
        )
    if unknown:
        raise SettingsError(unknown)

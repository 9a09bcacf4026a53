"""The back-tests of a preview: Pulsar's defaults in both releases, and the user's broker.conf."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pulsar_rebalancer.settings.broker_conf.convert import (
    Conversion,
    convert,
    convert_lines,
    refuse_nothing,
)
from pulsar_rebalancer.settings.broker_conf.forms import Property
from pulsar_rebalancer.settings.broker_conf.keys import (
    LOAD_MANAGER,
    PLACEMENT,
    SHEDDING,
    class_name,
    is_extensible,
)
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade, pair_in
from pulsar_rebalancer.settings.merge_sources import Settings, resolved
from pulsar_rebalancer.settings.setting_paths import all_leaves
from pulsar_rebalancer.settings.value_sources import Assignment, from_flags
from strategies.errors import SettingsError, raise_complaints
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, PulsarRelease

#: Keys without which neither release moves a bundle.
_SWITCHES = ("loadBalancerEnabled", "loadBalancerSheddingEnabled")
_OF_THE_FILE = "its value is Pulsar's default, or that of --broker-conf"
#: What the preview itself decides: a flag for all runs would make both releases the same.
_DECIDED: Mapping[str, str] = MappingProxyType(
    {
        PULSAR_VERSION: "--from and --to name the versions",
        "shedding.mode": "a preview decides as Pulsar does",
        "shedding.strategy": _OF_THE_FILE,
        "placement.strategy": _OF_THE_FILE,
    }
)


_OF_DEFAULTS = (
    "Both runs have Pulsar's defaults. If your broker.conf sets load-balancing keys, name it with "
    "--broker-conf."
)
_EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
_MANAGERS = ("ModularLoadManagerImpl", class_name(_EXTENSIBLE))
#: Settings that the extensible load manager has no key for: it always places in its own way.
_MODULAR_ONLY = frozenset({"placement.strategy", "filters.distribute_evenly"})


@dataclass(frozen=True, slots=True)
class PreviewRun:
    """One back-test. `of`: whose settings it has."""

    of: Literal["broker.conf", "defaults"]
    release: PulsarRelease
    title: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class PreviewPlan:
    """The runs; the first two are those that the sentences compare. `upgrade`: what changes for the
    file, or for Pulsar's defaults; `remarks`: sentences about what the runs assume; `warnings`:
    about lines of the file.
    """

    runs: tuple[PreviewRun, ...]
    upgrade: Upgrade
    remarks: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def settings(self) -> str:
        """Whose settings the first two runs have, in words."""
        return "default settings" if self.runs[0].of == "defaults" else "your broker.conf"


def plan_of(
    releases: tuple[PulsarRelease, PulsarRelease],
    conf: Path | None,
    flags: Sequence[str],
    *,
    extensible: bool,
) -> PreviewPlan:
    """The runs of a preview. `flags`: `path=value` for all runs; `extensible`: the recorded load
    manager. Raises SettingsError.
    """
    _refuse_decided(flags)
    runs = [
        PreviewRun(
            "defaults",
            release,
            f"defaults, {release}",
            as_pulsar(defaults_of(release, extensible=extensible), release, flags),
        )
        for release in releases
    ]
    if conf is None:
        upgrade = Upgrade(defaults_of(releases[0], extensible=extensible).given, *releases)
        return PreviewPlan(tuple(runs), upgrade, (_OF_DEFAULTS,))
    read = [(release, convert(conf, release)) for release in releases]
    refuse_nothing(conf, read[0][1])
    own = [
        PreviewRun(
            "broker.conf",
            release,
            f"{conf.name}, {release}",
            as_pulsar(conversion, release, flags),
        )
        for release, conversion in read
    ]
    found = read[0][1]
    remarks = tuple(_remarks(conf, found, extensible))
    return PreviewPlan((*own, *runs), Upgrade(found.given, *releases), remarks, found.warnings)


def _refuse_decided(flags: Sequence[str]) -> None:
    given, _ = from_flags(flags, all_leaves())
    wrong = [
        f"--set {one.path}: {_DECIDED[one.path]}; leave it out, or test the setting with "
        "`rebalancer backtest`"
        for one in given
        if one.path in _DECIDED
    ]
    raise_complaints(wrong)


def _remarks(conf: Path, found: Conversion, extensible: bool) -> Iterator[str]:
    """What the runs assume, if the file and the recorded cluster differ."""
    for key in _SWITCHES:
        if found.given.get(key) is False:
            yield (
                f"{conf.name} sets {key}=false: Pulsar itself moves nothing, before and after. The "
                "figures are those of a cluster in which it is true."
            )
    if is_extensible(found.given) != extensible:
        names = ("extensible", "modular") if extensible else ("modular", "extensible")
        yield (
            f"The recorded brokers run the {names[0]} load manager, {conf.name} selects the "
            f"{names[1]} one: the figures follow the file."
        )


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

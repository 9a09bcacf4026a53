"""Java's data maps as cases describe them: brokers and bundle averages, round after round, in the
order of their keys.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar, get_type_hints

import msgspec
import numpy as np

from pulsar_rebalancer.lab.conformance.vectors import Number
from strategies.bundles import BundleLoads, Floats, Ints
from strategies.cluster.model import BrokerLoad, ClusterView, Figures, Resource, Traffic
from strategies.cluster.strategy_memory import Memory
from strategies.errors import SettingsError
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease, defaults_in
from strategies.placement.contract import Averages
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


class ResourceData(msgspec.Struct, frozen=True):
    """Usage and limit; missing numbers are 0."""

    usage: Number = 0.0
    limit: Number = 0.0

    def figures(self) -> Resource:
        return Resource(float(self.usage), float(self.limit))


class TrafficData(msgspec.Struct, frozen=True, rename="camel"):
    """Messages/s and bytes/s; missing numbers are 0."""

    msg_rate_in: Number = 0.0
    msg_rate_out: Number = 0.0
    msg_throughput_in: Number = 0.0
    msg_throughput_out: Number = 0.0

    def columns(self) -> tuple[float, float, float, float]:
        return (
            float(self.msg_rate_in),
            float(self.msg_rate_out),
            float(self.msg_throughput_in),
            float(self.msg_throughput_out),
        )


class BrokerData(TrafficData, frozen=True, rename="camel"):
    """A broker's load report."""

    cpu: ResourceData = ResourceData()
    memory: ResourceData = ResourceData()
    direct_memory: ResourceData = ResourceData()
    bandwidth_in: ResourceData = ResourceData()
    bandwidth_out: ResourceData = ResourceData()
    bundles: list[str] = []

    def figures(self) -> Figures:
        return Figures(
            self.cpu.figures(),
            self.memory.figures(),
            self.direct_memory.figures(),
            self.bandwidth_in.figures(),
            self.bandwidth_out.figures(),
            Traffic(*self.columns()),
            len(set(self.bundles)),
        )


class AverageData(TrafficData, frozen=True, rename="camel"):
    """One average of a bundle; without a count it contains as many samples as it can."""

    num_samples: int | None = None


class BundleData(msgspec.Struct, frozen=True, rename="camel"):
    """Both averages of a bundle; a missing long one equals the short one."""

    short_term: AverageData = AverageData()
    long_term: AverageData | None = None
    topics: int = 0


class RoundData(msgspec.Struct, frozen=True, rename="camel"):
    """Input of a round: everything, or the changes since the last one."""

    brokers: dict[str, BrokerData | None] = {}
    bundle_data: dict[str, BundleData | None] = {}
    recently_unloaded: dict[str, Number] = {}
    active_brokers: list[str] | None = None
    patch: bool = False


@dataclass
class DataMaps:
    """Java's two data maps between patches, in the order of their keys."""

    brokers: dict[str, tuple[Figures, list[str]]] = field(default_factory=dict)
    bundles: dict[str, Averages] = field(default_factory=dict)

    def advance(self, round_: RoundData) -> None:
        """The maps of the next round."""
        self.brokers = patched(
            self.brokers,
            round_.brokers,
            lambda broker: (broker.figures(), broker.bundles),
            is_patch=round_.patch,
        )
        self.bundles = patched(self.bundles, round_.bundle_data, averages_of, is_patch=round_.patch)

    def view(self, round_: RoundData) -> ClusterView:
        """The part of the maps that a shedder reads."""
        names, rows = list(self.bundles), dict(self.bundles)
        brokers = tuple(
            BrokerLoad(broker, figures, partial(_table, owned, rows))
            for broker, (figures, owned) in self.brokers.items()
        )
        return ClusterView(
            "vectors", 0, brokers, frozenset(round_.recently_unloaded), lambda: names
        )


def patched(
    kept: Mapping[str, Any], given: Mapping[str, Any], read: Callable[[Any], Any], *, is_patch: bool
) -> dict[str, Any]:
    """The entries of a round. In a patch, null removes; a known key keeps its place; a new one goes
    to the end. Otherwise the round gives all.
    """
    entries = dict(kept) if is_patch else {}
    for name, value in given.items():
        if value is None:
            entries.pop(name, None)
        else:
            entries[name] = read(value)
    return entries


def averages_of(bundle: BundleData) -> Averages:
    """The averages of a bundle with their sample counts filled in."""
    short, long = bundle.short_term, bundle.long_term or bundle.short_term
    given = None if bundle.long_term is None else bundle.long_term.num_samples
    return Averages(
        short.columns(),
        long.columns(),
        10 if short.num_samples is None else short.num_samples,
        1000 if given is None else given,
        bundle.topics,
    )


def only_active(
    memory: Memory, active: Collection[str] | None, average: Literal["ewma", "placement_ewma"]
) -> Memory:
    """Memory in which only brokers of `active` have this average; None changes nothing. It is what
    Pulsar's classes forget when the set of live brokers changes (`onActiveBrokersChange`); a live
    round needs no such call, because the memory of a broker is part of its state and goes with it.
    """
    if active is None:
        return memory
    live, nothing = frozenset(active), dict[str, Any]({average: None})
    return replace(
        memory,
        brokers={
            broker: kept if broker in live else replace(kept, **nothing)
            for broker, kept in memory.brokers.items()
        },
    )


def _table(owned: list[str], bundles: Mapping[str, Averages]) -> BundleLoads:
    """The averages of a broker's bundles; a bundle without averages has no row."""
    names = tuple(name for name in dict.fromkeys(owned) if name in bundles)
    short, long, counts, topics = averages_columns([bundles[name] for name in names])
    return BundleLoads(names, short, long, *counts, topics, np.zeros_like(topics), short)


def averages_columns(
    rows: Sequence[Averages],
) -> tuple[Floats, Floats, tuple[Ints, Ints], Ints]:
    """Short and long averages (float64[bundles, 4] each), their numbers of samples, and the
    topics.
    """
    short, long = (
        np.array(averages, dtype=np.float64).reshape(-1, 4)
        for averages in ([row.short for row in rows], [row.long for row in rows])
    )
    counts = np.array(
        [(row.short_samples, row.long_samples, row.topics) for row in rows], dtype=np.int64
    ).reshape(-1, 3)
    return short, long, (counts[:, 0], counts[:, 1]), counts[:, 2]

"""The data that a viewer may see at one moment: immutable, and shared by all viewers. Rounds are
kept in little memory: the names of one are the names of the next, and usages are arrays beside
them.

500 rounds of 5,000 brokers took 85 MB as this, and 1,040 MB as they are decoded.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TypeVar

import numpy as np

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.status import CollectionPass
from strategies.bundles import Floats
from strategies.cluster.model import Round, Skip
from strategies.figures.estimate import reported_usage

#: The parts of a sorted row of usages that a chart shows: highest, 90 %, median, 10 %, lowest.
SHARES = (1.0, 0.9, 0.5, 0.1, 0.0)


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class BrokerPlaces:
    """Names of brokers, and the place of each; rounds with the same brokers share one object."""

    names: tuple[str, ...]
    by_name: Mapping[str, int]


class PackedUsage(Mapping[str, float]):
    """Usage per broker, as an array in the order of `places`; NaN where a broker has none."""

    __slots__ = ("places", "values_array")

    def __init__(self, places: BrokerPlaces, values_array: Floats) -> None:
        self.places, self.values_array = places, values_array

    def __getitem__(self, name: str) -> float:
        value = float(self.values_array[self.places.by_name[name]])
        if isnan(value):
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        known = np.flatnonzero(~np.isnan(self.values_array)).tolist()
        return (self.places.names[place] for place in known)

    def __len__(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.values_array)))


@dataclass(frozen=True, slots=True)
class PackedRound:
    """A round with shared names. `usage`: as reported; `after`: as expected after the commands;
    `levels`: usages at `SHARES` of its brokers, None without any;
    `changed`: number of the change that brought it, or its newest command or outcome.
    """

    round: Round
    places: BrokerPlaces
    usage: Floats
    after: Floats
    levels: tuple[float, ...] | None
    changed: int

    @property
    def key(self) -> tuple[int, int]:
        """Epoch and number, which order the rounds of a cluster."""
        return self.round.epoch, self.round.round


def packed(done: Round, before: PackedRound | None, changed: int) -> PackedRound:
    """The round in little memory. `before`: a round of the same cluster, whose names it shares."""
    places = _places(done, before)
    known: dict[str, str] = dict(zip(places.names, places.names, strict=True))
    if before is not None:
        known |= {name: name for skip in before.round.skips for name in skip.names}
    judged, after = _array(done.usage, places), _array(done.usage_after, places)
    usage = _array(reported_usage(done), places) if done.measured else judged
    small = replace(
        done,
        brokers=_shared(done.brokers, known, before.round.brokers if before else ()),
        usage=PackedUsage(places, judged),
        usage_after=PackedUsage(places, after),
        skips=_skips(done.skips, known, before.round.skips if before else ()),
    )
    return PackedRound(small, places, usage, after, _levels(usage), changed)


def _places(done: Round, before: PackedRound | None) -> BrokerPlaces:
    names = tuple(dict.fromkeys([*done.brokers, *done.usage, *done.usage_after]))
    if before is not None:
        if names == before.places.names:
            return before.places
        known = before.places.by_name
        if all(name in known for name in names):
            return before.places  # a broker that has left: its usage is NaN
        names = tuple(before.places.names[known[name]] if name in known else name for name in names)
    return BrokerPlaces(names, {name: place for place, name in enumerate(names)})


def _array(usage: Mapping[str, float], places: BrokerPlaces) -> Floats:
    found = np.full(len(places.names), np.nan)
    if usage:
        by_name = places.by_name
        found[[by_name[name] for name in usage]] = list(usage.values())
    found[~np.isfinite(found)] = np.nan
    found.setflags(write=False)
    return found


def _levels(usage: Floats) -> tuple[float, ...] | None:
    known = np.sort(usage[~np.isnan(usage)])
    if not known.size:
        return None
    last = known.size - 1
    return tuple(float(known[round(share * last)]) for share in SHARES)


def _shared(
    names: tuple[str, ...], known: Mapping[str, str], *alike: tuple[str, ...]
) -> tuple[str, ...]:
    for other in alike:
        if names == other:
            return other
    return tuple(known.get(name, name) for name in names)


def _skips(
    skips: Iterable[Skip], known: Mapping[str, str], before: Iterable[Skip]
) -> tuple[Skip, ...]:
    by_code = {(skip.code, skip.broker): skip.names for skip in before}
    return tuple(
        replace(skip, names=_shared(skip.names, known, by_code.get((skip.code, skip.broker), ())))
        for skip in skips
    )


class OnceMade:
    """Documents made from a snapshot: each once, by the first viewer who asks for it. One may be
    made from another.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: dict[str, object] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The document of this name."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]


@dataclass(frozen=True)
class LiveDecisions:
    """The decisions about one cluster. `version`: number of the newest change; `rounds`: the newest
    ones, oldest first; `log`: the same with their commands and outcomes, and what people decided.
    """

    version: int = 0
    rounds: tuple[PackedRound, ...] = ()
    log: DecisionLog = DecisionLog(has_outcomes=True)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """One cluster. `version`: number of its newest change; `now_ms`: when this was made;
    `report_ms`: time of the newest report; `rejected`: reason code → number of records.
    """

    cluster: str
    version: int
    now_ms: int
    decisions: LiveDecisions = LiveDecisions()
    report_ms: int | None = None
    sweep: CollectionPass | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """The state of reading a topic. `records`: number of records read; `error`: why it is not read,
    as a sentence, empty if it is; `since_ms`: time of the first failure; `caught_up`: whether all
    records that existed at the start were read.
    """

    name: str
    uri: str
    records: int = 0
    error: str = ""
    since_ms: int | None = None
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """All clusters by name. `version`: number of the newest change; `topics`: in the order of the
    settings; `paused`: whether the pause file of this machine exists, None = unknown; `starting`:
    the newest line of a job of this machine that starts, otherwise empty; `left_out`: number of
    records of clusters above the limit; `skipped`: number of records that are no round, command or
    outcome.
    """

    version: int = 0
    clusters: Mapping[str, LiveCluster] = field(default_factory=dict)
    topics: tuple[TopicHealth, ...] = ()
    paused: bool | None = None
    starting: str = ""
    left_out: int = 0
    skipped: int = 0

"""Keeps rounds in little memory: the names of one are the names of the next, and usages are arrays
beside them; with the levels of usage that the page draws.

500 rounds of 5,000 brokers took 85 MB as this, and 1,040 MB as they are decoded.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import Round, Skip
from strategies.figures.usage_after_moves import reported_usage

#: The parts of a sorted row of usages that a chart shows: highest, 90 %, median, 10 %, lowest.
SHARES = (1.0, 0.9, 0.5, 0.1, 0.0)


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
        known = before.places.by_name
        if all(name in known for name in names):
            return before.places  # the usage of a broker that has left is NaN
        names = tuple(before.places.names[known[name]] if name in known else name for name in names)
    return BrokerPlaces(names, {name: place for place, name in enumerate(names)})


def _array(usage: Mapping[str, float], places: BrokerPlaces) -> Floats:
    found = np.full(len(places.names), np.nan)
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
    names: tuple[str, ...], known: Mapping[str, str], before: tuple[str, ...]
) -> tuple[str, ...]:
    if names == before:
        return before
    return tuple(known.get(name, name) for name in names)


def _skips(
    skips: Iterable[Skip], known: Mapping[str, str], before: Iterable[Skip]
) -> tuple[Skip, ...]:
    by_code = {(skip.code, skip.broker): skip.names for skip in before}
    return tuple(
        replace(skip, names=_shared(skip.names, known, by_code.get((skip.code, skip.broker), ())))
        for skip in skips
    )

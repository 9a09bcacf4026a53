"""Learns what traffic costs: usage = (base + byte · throughput + message · message rate) / power.

The factors are non-negative least squares over the levels that all brokers have shown, drawn
weakly to a prior. A broker has a power other than that of its CPU, compared with the median, only
where it clearly differs. What traffic explains corrects the usage that a broker shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, sqrt
from statistics import median
from typing import TypeVar

import numpy as np

from strategies.bundles import Floats
from strategies.ordered_sum import ordered_sum
from strategies.shedding.steady.memory_format import LEVEL_BYTES, LoadHistory, LoadSample, columns

#: One figure, or those of many bundles.
_Figures = TypeVar("_Figures", float, Floats)
#: Usage without traffic that is assumed before anything is known.
PRIOR_BASE = 0.08
#: Weight of the prior, in samples, and the part of it for what bytes cost compared with messages: a
#: law that is held back here explains brokers with other messages by a power that they lack.
PRIOR_WEIGHT, PRIOR_RATIO = 1.0, 0.1
#: Usage without traffic is taken for at most this: where all brokers are equally busy, a high base
#: and traffic that costs nothing would fit as well. Where a broker has less than this part of the
#: mean traffic, it may be as high as the lowest usage of all.
HIGHEST_BASE, IDLE = 0.15, 0.18
#: A broker's power is taken for 1 unless it differs from the median by more than this factor.
CLEARLY = 1.4
#: Bounds of a broker's power, in medians: a broker that reports nearly no usage for its traffic
#: measures it wrong.
POWERS = (0.1, 10.0)
#: Bytes/s, or messages/s: less traffic than this shows nothing of what it costs.
LEAST_TRAFFIC = 1e-6
#: Standard deviation of the usage (fraction) that a sample shows from the one that its traffic
#: explains, and the part of the load of which at most it is unsure whether bytes cost it.
SCATTER, MOST_UNSURE = 0.05, 0.25
#: Relative difference of products that rounding makes.
_ROUNDING = 1e-9
#: Rounds in which factors and powers are fitted in turns.
_TURNS = 4
#: Load (usage on a broker of power 1) that says little about what traffic costs on a broker.
LITTLE = 0.05
#: Bounds of the factor by which a broker's bundles cost more or less than predicted.
SCALE = (0.6, 1.7)
#: The usage that a broker shows in a few samples is this uncertain, in points (standard deviation):
#: CPU deviates for minutes from what a broker's work takes.
NOISE = 1.7
#: At least this part of the difference between the usage that a broker shows and the one that its
#: traffic explains is taken for lasting.
LASTING = 0.75


@dataclass(frozen=True, slots=True)
class LoadCost:
    """Usage (fraction) of a broker of power 1: `base`, per byte/s, and per message/s. `powers`:
    broker → power, where it is not 1; `unsure`: part of the load that bytes may cost instead of
    messages, or messages instead of bytes.
    """

    base: float
    per_byte: float
    per_message: float
    powers: Mapping[str, float]
    unsure: float = MOST_UNSURE

    def of(self, throughput: _Figures, msg_rate: _Figures) -> _Figures:
        """Load of traffic: its usage on a broker of power 1."""
        return self.per_byte * throughput + self.per_message * msg_rate

    def expected(self, broker: str, load: LoadSample) -> float:
        """Usage of a broker with this traffic."""
        traffic = self.of(load.throughput, load.msg_rate)
        return (self.base + traffic) / self.powers.get(broker, 1.0)

    def capacity(self, broker: str, load: LoadSample) -> float:
        """Load per unit of usage: the broker's power, drawn halfway to what its usage shows."""
        power = self.powers.get(broker, 1.0)
        traffic = self.of(load.throughput, load.msg_rate)
        seen = max(0.0, load.usage * power - self.base)
        scale = sqrt((seen + LITTLE) / (traffic + LITTLE))
        return power / min(max(scale, SCALE[0]), SCALE[1])


def learned(histories: Mapping[str, LoadHistory], limits: Mapping[str, float]) -> LoadCost:
    """The cost of load that all brokers have shown so far. `limits`: broker → CPU of its machine,
    the first guess of its power; 0 where it is not known.
    """
    guessed = _guessed(limits)
    names = sorted(name for name, one in histories.items() if one.packed_levels)
    rows = _Rows([histories[name].packed_levels for name in names])
    if not rows.count:
        return LoadCost(0.0, 0.0, 0.0, {})
    guess = np.array([guessed.get(name, 1.0) for name in names])
    factors = rows.fitted(guess)
    for _ in range(_TURNS):
        factors = rows.fitted(guess * _clear(rows.ratios(factors, guess)))
    powers = (guess * _clear(rows.ratios(factors, guess))).tolist()
    unlike = {
        name: one
        for name, one in (guessed | dict(zip(names, powers, strict=True))).items()
        if one != 1
    }
    return LoadCost(
        factors[0],
        factors[1] / rows.units[0],
        factors[2] / rows.units[1],
        unlike,
        min(rows.deviation / max(factors[1] + factors[2], 1e-9), MOST_UNSURE),
    )


def _guessed(limits: Mapping[str, float]) -> dict[str, float]:
    """Broker → its power by the CPU of its machine, relative to the median."""
    known = {name: one for name, one in limits.items() if 0.0 < one < inf}
    middle = median(known.values()) if known else 1.0
    return {name: min(max(one / middle, POWERS[0]), POWERS[1]) for name, one in known.items()}


def drawn(shown: Floats, explained: Floats) -> Floats:
    """float64[n] in points: the usages that brokers show, drawn to those that their traffic
    explains by the part of the differences that noise is likely to be (James and Stein).
    """
    apart = shown - explained
    noise = len(apart) * (NOISE * NOISE) / max(float(np.sort(apart * apart).sum()), 1e-9)
    return explained + max(LASTING, 1.0 - noise) * apart


class _Rows:
    """The levels of all brokers as columns, in units of their means. What there is no traffic of
    costs nothing.
    """

    def __init__(self, levels: Sequence[bytes]) -> None:
        figures = columns(b"".join(levels), 5)
        self.count = len(figures)
        self._broker = np.repeat(
            np.arange(len(levels)), [len(one) // LEVEL_BYTES for one in levels]
        )
        self._weight = figures[:, 3] if self.count else np.zeros(0)
        self.units = (_unit(figures[:, 0]), _unit(figures[:, 1]))
        self._columns = [
            np.ones(self.count),
            figures[:, 0] / self.units[0],
            figures[:, 1] / self.units[1],
        ]
        self._usage = figures[:, 2]
        products = [
            [float((self._weight * one * other).sum()) for other in self._columns]
            for one in self._columns
        ]
        bytes_, both, messages = products[1][1], products[1][2], products[2][2]
        # Messages of one size show nothing, and not even a rounding depends on what they cost.
        self._unlike = bytes_ * messages - both * both > _ROUNDING * bytes_ * messages
        part = PRIOR_RATIO if self._unlike else 1.0
        alike, apart = (PRIOR_WEIGHT * (1.0 + sign * part) / 2.0 for sign in (1, -1))
        prior = ((PRIOR_WEIGHT, 0.0, 0.0), (0.0, alike, apart), (0.0, apart, alike))
        #: The matrix of the least squares.
        self._products = [
            [one + more for one, more in zip(*both_rows, strict=True)]
            for both_rows in zip(products, prior, strict=True)
        ]
        traffic = self._columns[1] + self._columns[2]
        self._some_idle = bool((traffic < IDLE * traffic.mean()).any()) if self.count else False

    def fitted(self, powers: Floats) -> tuple[float, float, float]:
        """Non-negative least squares for the three factors."""
        load = self._usage * powers[self._broker]
        total = float(self._weight.sum())
        mean = float((self._weight * load).sum()) / total
        base = min(PRIOR_BASE, mean)
        prior = (base, (mean - base) / 2, (mean - base) / 2)
        products = self._products
        against = [
            float((self._weight * one * load).sum()) + PRIOR_WEIGHT * more
            for one, more in zip(self._columns, prior, strict=True)
        ]
        found = _non_negative(products, against)
        highest = max(HIGHEST_BASE, float(load.min())) if self._some_idle else HIGHEST_BASE
        if found[0] <= highest:
            return found
        rest = [against[at] - highest * products[at][0] for at in (1, 2)]
        _, first, second = _non_negative(
            [[1.0, 0.0, 0.0], [0.0, *products[1][1:]], [0.0, *products[2][1:]]], [0.0, *rest]
        )
        return highest, first, second

    @property
    def deviation(self) -> float:
        """Standard deviation of the load that bytes cost and messages do not."""
        if not self._unlike:
            return inf
        _, more, less = _solved(self._products, [0.0, 0.5, -0.5])
        return SCATTER * sqrt(max(0.0, more - less) / 2)

    def ratios(self, factors: tuple[float, float, float], powers: Floats) -> Floats:
        """float64[brokers]: usage predicted with these powers ÷ seen usage, weighted by traffic; 1
        for brokers that never had enough traffic.
        """
        traffic = factors[1] * self._columns[1] + factors[2] * self._columns[2]
        weight = self._weight * traffic
        predicted = np.bincount(self._broker, weight * (factors[0] + traffic))
        seen = np.bincount(self._broker, weight * self._usage)
        most = np.zeros(len(seen))
        np.maximum.at(most, self._broker, traffic)
        return np.where(most > LITTLE, predicted / powers / np.maximum(seen, 1e-9), 1.0)


def _clear(ratios: Floats) -> Floats:
    """Powers relative to the median; 1 unless they clearly differ from it."""
    relative = np.clip(ratios / max(float(np.median(ratios)), 1e-9), *POWERS)
    return np.where((relative > CLEARLY) | (relative < 1 / CLEARLY), relative, 1.0)


def _unit(column: Floats) -> float:
    mean = float(column.mean()) if len(column) else 0.0
    return mean if mean >= LEAST_TRAFFIC else inf


def _non_negative(
    products: Sequence[Sequence[float]], against: Sequence[float]
) -> tuple[float, float, float]:
    """The non-negative x with the smallest x·P·x − 2·a·x: the best of the solutions with some
    factors at zero.
    """
    best, value = (0.0, 0.0, 0.0), 0.0
    for count in (3, 2, 1):
        for chosen in combinations(range(3), count):
            found = _solved(
                [[products[i][j] for j in chosen] for i in chosen], [against[i] for i in chosen]
            )
            if min(found) < 0:
                continue
            worth = -ordered_sum(against[i] * x for i, x in zip(chosen, found, strict=True))
            if worth < value:
                full = dict(zip(chosen, found, strict=True))
                best, value = (full.get(0, 0.0), full.get(1, 0.0), full.get(2, 0.0)), worth
    return best


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss's elimination with pivots. The prior keeps every matrix far from singular: no
    eigenvalue is below PRIOR_RATIO.
    """
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in range(size):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [x - factor * y for x, y in zip(rows[row], rows[at], strict=True)]
    return [rows[at][size] / rows[at][at] for at in range(size)]

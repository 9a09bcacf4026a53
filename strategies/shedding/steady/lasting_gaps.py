"""Finds the gap between two brokers that every sample of a window shows."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, partial
from math import nan

import numpy as np

from strategies.bundles import Floats, Ints
from strategies.shedding.steady.load_samples import SAMPLES, by_usage
from strategies.shedding.steady.memory_format import (
    Episode,
    LoadHistory,
    LoadSample,
    columns,
    packed,
)
from strategies.shedding.steady.settings import Profile

#: Samples of the plain, the huge and the lasting test, and samples per block mean of the last one.
PLAIN, HUGE, BLOCK = 3, 2, 4
#: A gap that is larger than its limit by this factor counts if traffic explains this part of it:
#: what bundles cost beyond their bytes and messages, and bandwidth that is used in one direction
#: only, explain the rest.
PARTLY_FACTOR, PARTLY = 1.25, 0.4
#: Where traffic explains all of a wide gap in each sample, their mean must show it too, and each of
#: them this part of it: CPU is noisier than traffic.
SHOWN = 0.5
#: The follow-up test applies for this long after the first moves of an episode.
EPISODE_MS = 720_000
#: Reports show the strategy's own moves within this time: until then, a change may be theirs.
#: While executors may carry a move out, a bundle less on its source or more on its destination may
#: be theirs for longer.
OWN_MOVES_MS = 180_000
#: Part of the limit of follow-ups that is enough after something else moved bundles: unlike the
#: strategy's own moves, those were not to even anything out.
FOREIGN = 0.8
#: Of more brokers than the first number, a round compares and plans for this many at each end of
#: usages.
_ALL, _ENDS = 1000, 100
_MISSING = SAMPLES * packed(nan, nan, nan, nan)


#: Rows of two brokers, and the points that the first is above the second.
_Pair = tuple[int, int, float]


@dataclass(frozen=True, slots=True)
class GapTest:
    """A gap counts from `limit` points on, if each of `samples` samples shows it, or each mean of
    `block` of them. `explained`: part of the limit that the usages that the brokers' traffic
    explains must show as well; `averaged`: the mean of the samples shows it, each of them at least
    half of it; no samples: the forecast shows it.
    """

    code: str
    limit: float
    samples: int
    block: int = 1
    explained: float = 0.0
    averaged: bool = False


@dataclass(frozen=True, slots=True)
class LoadGap:
    """A gap (points) that `over` shows above `under`, and the test that compares it. `by_traffic`:
    whether what traffic explains was asked as well.
    """

    test: GapTest
    over: str
    under: str
    points: float
    by_traffic: bool


def compared_brokers(usage: Mapping[str, float]) -> list[str]:
    """The brokers that a round compares, by name: all, or the fullest and the emptiest."""
    if len(usage) <= _ALL:
        return sorted(usage)
    ranked = sorted(sorted(usage), key=usage.__getitem__)
    return sorted(ranked[:_ENDS] + ranked[-_ENDS:])


def widest_gap(
    histories: Mapping[str, LoadHistory],
    expected: Callable[[str, LoadSample], float],
    profile: Profile,
    episode: Episode,
    now_ms: int,
) -> tuple[LoadGap | None, LoadGap | None]:
    """The gap that a test believes, with the largest excess over its limit, and of the gaps that
    no test believes the one nearest to its limit; both None where there is none. Brokers in the
    order of their names. A broker whose newest figures are doubted proves nothing: its newest
    sample is a guess.

    `expected`: usage (fraction) that a broker's traffic explains.
    """
    tests = [GapTest("huge-gap", profile.huge, HUGE)]
    for factor, part in ((1.0, 1.0), (PARTLY_FACTOR, PARTLY)):
        tests += [
            GapTest(
                "wide-gap", factor * profile.plain, PLAIN, explained=part, averaged=part == 1.0
            ),
            GapTest("lasting-gap", factor * profile.lasting, SAMPLES, BLOCK, explained=part),
        ]
    is_new = episode.began_at_ms >= 0 and now_ms - episode.began_at_ms <= EPISODE_MS
    if is_new and not episode.followed_up:
        foreign = episode.began_at_ms > episode.last_at_ms
        tests.append(GapTest("follow-up", profile.follow_up * (FOREIGN if foreign else 1.0), PLAIN))
    shown = {name: one for name, one in histories.items() if not one.doubted}
    windows = _Windows(shown, expected)
    believed, nearest = None, None
    for test in tests:
        gap = windows.gap(test)
        if gap is None:
            continue
        excess = gap.points - test.limit
        if gap.points >= test.limit and (
            believed is None or excess > believed.points - believed.test.limit
        ):
            believed = gap
        elif nearest is None or excess > nearest.points - nearest.test.limit:
            nearest = gap
    return believed, nearest


def followed(
    episode: Episode,
    before: Mapping[str, LoadHistory],
    after: Mapping[str, LoadHistory],
    now_ms: int,
    own: tuple[Set[str], Set[str]] = (frozenset(), frozenset()),
) -> Episode:
    """The episode, begun again if something else moved bundles: a gap that follows has a cause.
    `before`: with the strategy's own moves counted in; `own`: brokers that one of them may just
    have left, and that one may just have reached.
    """
    if now_ms - episode.last_at_ms <= OWN_MOVES_MS:
        return episode
    left, reached = own
    moved = any(
        old.packed_samples
        and after[name].bundles != old.bundles
        and not by_usage(after[name])
        and name not in (left if after[name].bundles < old.bundles else reached)
        for name, old in before.items()
        if name in after
    )
    return episode._replace(began_at_ms=now_ms, followed_up=False) if moved else episode


class _Windows:
    """The usages that brokers show, and those that their traffic explains. Tests that differ only
    in their limits share the search of their window.
    """

    def __init__(
        self, histories: Mapping[str, LoadHistory], expected: Callable[[str, LoadSample], float]
    ) -> None:
        self._names = list(histories)
        self._samples = _samples(histories.values())
        self._usages = 100.0 * self._samples[:, :, 1]
        self._pairs: dict[tuple[int, int, bool], _Pair | None] = {}
        # Not a method: a cycle would keep what each round sees until Python looks for cycles.
        self._usages_by_traffic = cache(partial(_explained, self._samples, self._names, expected))

    def gap(self, test: GapTest) -> LoadGap | None:
        """The widest gap in the window of a test, None if fewer than two brokers fill it."""
        rows = np.flatnonzero(np.isfinite(self._usages[:, -test.samples]))
        window = test.samples, test.block
        usages = self._averaged(test.samples) if test.averaged else [self._usages]
        if (key := (*window, test.averaged)) not in self._pairs:
            self._pairs[key] = _widest_in(usages, rows, *window)
        pair = self._pairs[key]
        if pair is None:
            return None
        by_traffic = test.explained > 0 and pair[2] >= test.limit
        if by_traffic:
            explained = 100.0 * (self._usages_by_traffic(test.samples) / test.explained)
            pair = _widest_in([*usages, explained], rows, *window) or pair
        over, under, points = pair
        return LoadGap(test, self._names[over], self._names[under], points, by_traffic)

    def _averaged(self, samples: int) -> list[Floats]:
        """The mean of the newest usages, in each column, and the usages that each sample may be
        short of it.
        """
        mean = self._usages[:, -samples:].mean(axis=1, keepdims=True)
        return [np.repeat(mean, SAMPLES, axis=1), self._usages / SHOWN]


def _explained(
    figures: Floats,
    names: Sequence[str],
    expected: Callable[[str, LoadSample], float],
    samples: int,
) -> Floats:
    """float64[n, SAMPLES]: the newest usages (fractions) that traffic explains."""
    explained = np.full(figures.shape[:2], nan)
    for row, name in enumerate(names):
        for at in range(SAMPLES - samples, SAMPLES):
            explained[row, at] = expected(name, LoadSample(*figures[row, at].tolist()))
    return explained


def _samples(histories: Collection[LoadHistory]) -> Floats:
    """float64[n, SAMPLES, 4]: the samples after each broker's last change, the newest on the right,
    NaN where there are fewer.
    """
    figures = b"".join(
        _MISSING[len(one.packed_samples) :] + one.packed_samples for one in histories
    )
    samples = columns(figures).reshape(-1, SAMPLES, 4).copy()
    changed_at_ms = np.array([one.changed_at_ms for one in histories], dtype=np.float64)
    samples[samples[:, :, 0] <= changed_at_ms[:, None]] = nan
    return samples


def _widest_in(usages: Sequence[Floats], rows: Ints, samples: int, block: int) -> _Pair | None:
    """The two of these brokers with the largest smallest difference within the window of any of
    `usages`, and that difference; None for fewer than two brokers.
    """
    if len(rows) < 2:
        return None
    windows = [one[rows, -samples:] for one in usages]
    if block > 1:
        windows = [one.reshape(len(rows), -1, block).mean(axis=2) for one in windows]
    over, under, points = _widest_pair(np.ascontiguousarray(np.concatenate(windows, axis=1).T))
    return int(rows[over]), int(rows[under]), points


def _widest_pair(usages: Floats) -> tuple[int, int, float]:
    """The two brokers with the largest smallest difference over all rows of float64[k, brokers],
    and that difference. Only brokers that could beat the pair of the extreme sums are compared.
    """
    sums = usages.sum(axis=0)
    least = (usages[:, sums.argmax()] - usages[:, sums.argmin()]).min()
    high = np.flatnonzero((usages - usages.min(axis=1)[:, None]).min(axis=0) >= least)
    low = np.flatnonzero((usages.max(axis=1)[:, None] - usages).min(axis=0) >= least)
    differences = (usages[:, high][:, :, None] - usages[:, low][:, None, :]).min(axis=0)
    one, other = np.unravel_index(int(differences.argmax()), differences.shape)
    return int(high[one]), int(low[other]), float(differences[one, other])


def samples_with(gap: LoadGap, histories: Mapping[str, LoadHistory]) -> tuple[int, int]:
    """Number of samples that show a gap, and of all that both brokers have."""
    over, under = (histories[name].samples[::-1] for name in (gap.over, gap.under))
    pairs = list(zip(over, under, strict=False))
    shown = sum(100 * (one.usage - other.usage) >= gap.test.limit for one, other in pairs)
    return shown, len(pairs)

"""Learns how long load lasts, and forecasts which part of it will still be there in an hour.

Every 20 minutes, a look compares what each broker carries beyond the averages of its bundles with
what it carried beyond them at its oldest sample. The part that is still there is the persistence of
load: 1 on a cluster whose load lasts, about 0 on one whose load has no memory. A forecast takes
this part of what brokers carry beyond the averages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from struct import Struct

import numpy as np

from strategies.shedding.steady.lasting_gaps import HUGE, PLAIN, GapTest, LoadGap, samples_with
from strategies.shedding.steady.load_samples import SAMPLES
from strategies.shedding.steady.memory_format import Episode, LoadHistory, LoadSample, columns
from strategies.shedding.steady.planned_cluster import PlannedCluster
from strategies.shedding.steady.settings import Profile

#: Looks are this long apart, at whole multiples in UTC, so that a warm start has them at the same
#: times; this number is remembered. A look needs this number of samples of each broker.
LOOK_MS, LOOKS, LEAST_SAMPLES = 1_200_000, 24, 10
#: Points: brokers that are nearer to their averages than this say little about persistence, and
#: load that comes and goes by less is even enough.
NOISE = 2.0
#: Deviations up to this many times the usual one come and go like those before; what a larger one
#: has above that is new.
UNUSUAL = 3.0
#: Persistence from 1 minus this on is that of load that stands still.
STANDING = 0.05
#: Part of all traffic by which it falls where load comes and goes.
FALLEN = 0.1
#: A gap of forecasts counts from the limit of lasting gaps on, and from this many times its
#: uncertainty.
SURE = 3.0
#: A plan for a forecast leaves this many times its uncertainty.
LEFT = 2.0
#: Usage (fraction) from which on a broker is near its limit.
NEAR_LIMIT = 0.85
_LOOK = Struct("<2f")


@dataclass(frozen=True, slots=True)
class Persistence:
    """The part of the brokers' deviations from the averages of their bundles that is still there
    in the next hour, and their usual size in points; `looked_ms`: over which time it was learned.
    """

    part: float = 1.0
    usual: float = 0.0
    looked_ms: int = 0

    @property
    def coming(self) -> float:
        """Points by which the load of a broker usually changes in 20 minutes, and changes back."""
        return self.usual * sqrt(1.0 - self.part * self.part)

    @property
    def comes_and_goes(self) -> bool:
        """Whether the newest figures say less than averages about the next hours."""
        return self.coming > NOISE

    def of(self, points: float) -> float:
        """The part of a broker's deviation (points) that lasts."""
        size = max(abs(points), 1e-9)
        new = max(0.0, size - UNUSUAL * self.usual)
        return (self.part * (size - new) + new) / size


def follows_a_fall(gap: LoadGap, histories: Mapping[str, LoadHistory]) -> bool:
    """Whether the traffic of all brokers, which moves do not change, fell within the last samples,
    and a gap stands only in some of them. A gap that a step up leaves is answered at once; one that
    a fall leaves is not urgent, and most likely part of load that comes and goes.
    """
    shown, of_all = samples_with(gap, histories)
    if shown == of_all == SAMPLES:
        return False
    samples = [_comparable(one) for one in histories.values() if one.samples]
    count = min(map(len, samples), default=0)
    if count <= HUGE:
        return False
    total = np.array([[now.throughput for now in one[-count:]] for one in samples]).sum(axis=0)
    # All samples of a window were above a later one: load that alternates has not fallen.
    lows = np.lib.stride_tricks.sliding_window_view(total, HUGE).min(axis=1)
    fall = float((np.maximum.accumulate(lows)[:-1] - total[HUGE:]).max())
    return fall >= FALLEN * float(total.mean())


def _comparable(history: LoadHistory) -> list[LoadSample]:
    """The samples of the broker's present bundles. Those before the strategy's own last move show
    it as predicted, and are left out where enough newer ones remain.
    """
    since = [one for one in history.samples if one.at_ms > history.recounted_at_ms]
    later = [one for one in since if one.at_ms > history.changed_at_ms]
    return later if len(later) >= LEAST_SAMPLES else since


def is_due(episode: Episode, profile: Profile, now_ms: int) -> bool:
    """Whether the next look is due."""
    return (
        now_ms // LOOK_MS > episode.looked_at_ms // LOOK_MS
        and profile.forecasts
        and now_ms >= episode.rests_until_ms
    )


def is_calm(histories: Mapping[str, LoadHistory], profile: Profile) -> bool:
    """Whether usages are closer together, in the newest samples and 20 minutes ago, than a forecast
    moves for, so that a look at bundles, which costs as much as a plan, would lead to nothing.
    """
    usages = [columns(one.packed_samples)[:, 1] for one in histories.values() if one.packed_samples]
    ends = [(one[:PLAIN].mean(), one[-PLAIN:].mean()) for one in usages]
    return not ends or bool((100 * np.ptp(ends, axis=0) < profile.lasting).all())


def persistence(episode: Episode) -> Persistence:
    """What the looks so far say: without any, that load lasts."""
    looks = np.frombuffer(episode.packed_looks, "<f4").reshape(-1, 2).astype(np.float64)
    looks = looks[looks[:, 1] > 0]
    if not len(looks):
        return Persistence()
    weights = looks[:, 1] / (looks[:, 1] + NOISE * NOISE)
    part = (1.0 + float((weights * looks[:, 0]).sum())) / (1.0 + float(weights.sum()))
    part = min(max(part, 0.0), 1.0)
    # Of 20 minutes; the mean over the next 20, 40 and 60.
    return Persistence(
        (part + part * part + part * part * part) / 3,
        sqrt(float(looks[:, 1].mean())),
        len(looks) * LOOK_MS,
    )


def looked(episode: Episode, now_ms: int, seen: tuple[float, float] | None) -> Episode:
    """The episode after a look. One that saw nothing counts as well, so that looks are forgotten
    after eight hours.
    """
    looks = (episode.packed_looks + _LOOK.pack(*(seen or (1.0, 0.0))))[-LOOKS * _LOOK.size :]
    return episode._replace(looked_at_ms=now_ms, packed_looks=looks)


def look(
    cluster: PlannedCluster, histories: Mapping[str, LoadHistory]
) -> tuple[float, float] | None:
    """The part of deviations that is still there, and their mean square; of the brokers that have
    samples enough. None if fewer than two have.
    """
    seen = [
        (row, samples)
        for row, name in enumerate(cluster.names)
        if name in histories and len(samples := _comparable(histories[name])) >= LEAST_SAMPLES
    ]
    if len(seen) < 2:
        return None
    count = min(len(samples) for _, samples in seen)
    points = np.array(
        [[100.0 * one.usage for one in samples[-count:]] for _, samples in seen]
    ) - np.array([[cluster.usual_points(row)] for row, _ in seen])
    points -= points.mean(axis=0)
    old, new, change = points[:, 0], points[:, 1:].mean(axis=1), points[:, -1] - points[:, 0]
    square = float((old * old).mean())
    part = min(max(float((old * new).mean()) / max(square, 1e-9), -1.0), 1.0)
    # A deviation that stands still does not come and go, however large it is.
    moving = float((change * change).mean()) / 2 / max(1.0 - part, STANDING)
    return part, min(square, moving)


def uncertainty(cluster: PlannedCluster, lasting: Persistence, period_ms: float) -> float:
    """Standard deviation of a broker's forecast in points: a young average is not sure."""
    return lasting.coming / sqrt(max(cluster.averaged * period_ms / LOOK_MS, 1.0))


def is_near_limit(histories: Mapping[str, LoadHistory]) -> bool:
    """Whether a broker is near its limit in each of its last samples."""
    return any(
        len(one.samples) >= PLAIN and min(now.usage for now in one.samples[-PLAIN:]) >= NEAR_LIMIT
        for one in histories.values()
    )


def forecast_gap(
    now: PlannedCluster, later: PlannedCluster, profile: Profile, unsure: float, *, urgent: bool
) -> LoadGap | None:
    """The gap between the fullest and the emptiest broker of the forecast `later`, if it counts:
    present load must show it too, since averages know only what traffic explains. `urgent`: a
    broker is near its limit.
    """
    if len(later.known) < 2:
        return None
    usage = later.brokers.usage
    over, under = int(usage.argmax()), int(usage.argmin())
    test = GapTest(
        "near-limit" if urgent else "forecast-gap", max(profile.lasting, SURE * unsure), 0
    )
    points = min(float(one.brokers.usage[over] - one.brokers.usage[under]) for one in (now, later))
    if points < test.limit:
        return None
    return LoadGap(test, later.names[over], later.names[under], points, False)

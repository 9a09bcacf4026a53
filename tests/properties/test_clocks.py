"""One bad clock can neither freeze nor rush a cluster: clocks that jump, creep, stand still and go
backwards, of brokers and collectors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, Round, TelemetryRecord
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import RoundSettings
from tests.world.telemetry import T0, report, sweep

ROUND = RoundSettings()
#: Minutes of a story; the clock goes wrong after some of them.
MINUTES, WRONG_FROM = 40, 5

Kind = Literal["jump", "creep", "still", "back", "there-and-back"]


@dataclass(frozen=True)
class BadClock:
    """`size`: seconds of a jump, or seconds gained in a minute by a clock that creeps."""

    kind: Kind
    size: float

    def shows(self, true_s: float) -> float:
        """What it shows at a true time."""
        since = true_s - WRONG_FROM * 60
        if since < 0:
            return true_s
        match self.kind:
            case "jump":
                return true_s + self.size
            case "creep":
                return true_s + self.size * since / 60
            case "still":
                return WRONG_FROM * 60 + 1e-3 * since
            case "back":
                return true_s - self.size
            case "there-and-back":
                return true_s + (self.size if since < 600 else 0)


bad_clocks = st.one_of(
    st.builds(BadClock, st.just("jump"), st.integers(1, 100_000)),
    st.builds(BadClock, st.just("creep"), st.integers(-59, 600)),
    st.builds(BadClock, st.just("still"), st.just(0)),
    st.builds(BadClock, st.just("back"), st.integers(1, 100_000)),
    st.builds(BadClock, st.just("there-and-back"), st.integers(1, 100_000)),
)


def raw_log(
    brokers: Sequence[str],
    shows: Callable[[str, float], float],
    phases: Sequence[float],
    every_s: int,
) -> list[tuple[float, TelemetryRecord]]:
    """What brokers publish by themselves, each stamped with its own clock, in the order in which it
    is sent.
    """
    sent = sorted(
        (i * every_s + phase, name)
        for name, phase in zip(brokers, phases, strict=True)
        for i in range(MINUTES * 60 // every_s)
    )
    return [(at, report(name, shows(name, at), 20 + at % 60 + at / 100)) for at, name in sent]


def told(log: Sequence[tuple[float, TelemetryRecord]]) -> list[tuple[float, Event]]:
    """Events, each with the true time of the record that brought it."""
    store, engine = InMemoryStore(), Engine(EngineSettings(strategy="threshold", round=ROUND))
    return [(at, event) for at, record in log for event in engine.fold(record, store)]


def rounds_of(events: Sequence[tuple[float, Event]]) -> list[tuple[float, Round]]:
    return [(at, event) for at, event in events if isinstance(event, Round)]


def longest_gap(closed: Sequence[tuple[float, Round]]) -> float:
    return max(later - earlier for (earlier, _), (later, _) in pairwise(closed))


@dataclass(frozen=True)
class Cluster:
    """Brokers that all report every `every_s`, each at a time of its own; `bad`: which of them has
    the bad clock.
    """

    phases: tuple[float, ...]
    every_s: int
    bad: int


def _clusters_of(every_s: int) -> st.SearchStrategy[Cluster]:
    phase = st.integers(0, every_s * 10 - 1).map(lambda tenth: tenth / 10)
    phases = st.lists(phase, min_size=3, max_size=6, unique=True).map(tuple)
    return phases.flatmap(
        lambda some: st.builds(
            Cluster, st.just(some), st.just(every_s), st.integers(0, len(some) - 1)
        )
    )


@pytest.mark.heavy
@given(bad_clocks, st.sampled_from([20, 30, 60]).flatmap(_clusters_of))
@example(BadClock("creep", 4), Cluster((0.0, 0.2, 0.1, 0.3), 60, bad=2))
def test_the_clock_of_one_broker_can_neither_freeze_nor_rush_the_others(
    clock: BadClock, cluster: Cluster
) -> None:
    brokers, phases, every_s = (
        [f"b{i}:1" for i in range(len(cluster.phases))],
        cluster.phases,
        cluster.every_s,
    )
    bad = brokers[cluster.bad]
    log = raw_log(brokers, lambda name, at: clock.shows(at) if name == bad else at, phases, every_s)
    closed = rounds_of(told(log))
    after = [(at, one) for at, one in closed if at > WRONG_FROM * 60]
    # Never frozen, never rushed: about one round a minute, at most one more for each time that the
    # clock goes wrong or right.
    assert longest_gap(closed) <= 240
    assert MINUTES - 10 <= len(closed) <= MINUTES + 3
    # Time stays near the true one. Others are taken for stale only by a clock that wins minutes per
    # minute, until most contradict it.
    early = [one for _, one in after if not set(brokers) - {bad} <= set(one.brokers)]
    assert len(early) <= (2 if clock.kind == "creep" and clock.size > 45 else 0)
    for at, one in after:
        assert abs(one.ts - T0 - at * 1000) <= ROUND.stale_after_ms, at
    # It is not silent: whoever is further off than that is left out and named, with the reason.
    if clock.kind == "jump" and clock.size > 92:
        for _, one in after[4:]:
            assert bad in one.stale
            assert any(bad in skip.names and skip.code == "clock-ahead" for skip in one.skips)


@pytest.mark.heavy
@given(bad_clocks, st.data())
def test_two_brokers_that_disagree_freeze_nothing_and_move_nothing(
    clock: BadClock, data: st.DataObject
) -> None:
    bad = data.draw(st.sampled_from(["a:1", "b:1"]))
    log = raw_log(
        ["a:1", "b:1"], lambda name, at: clock.shows(at) if name == bad else at, [1.0, 2.0], 30
    )
    closed = rounds_of(told(log))
    assert longest_gap(closed) <= 400
    assert closed[-1][0] > (MINUTES - 7) * 60
    for _, one in closed:
        stamps = dict.fromkeys(one.brokers)
        assert len(stamps) == 2 or not one.commands
        assert len(stamps) == 2 or one.stale


@pytest.mark.heavy
@given(
    bad_clocks.filter(
        lambda clock: (
            clock.kind != "still"
            and clock.size < 200
            and not (clock.kind == "creep" and clock.size < -30)
        )
    )
)
def test_the_clock_of_a_collector_can_neither_freeze_nor_rush_the_cluster(clock: BadClock) -> None:
    """It stamps everything, so rounds follow its passes: at most one each, and never none for
    long.
    """
    names = ("a:1", "b:1", "c:1")
    log: list[tuple[float, TelemetryRecord]] = []
    for number in range(MINUTES):
        for i, name in enumerate(names):
            at = number * 60.0 + i
            log.append((at, report(name, clock.shows(at), 20 + at % 60 + at / 100)))
        at = number * 60.0 + 5
        marker = sweep(clock.shows(at), *names)
        log.append((at, type(marker)(marker.cluster, marker.ts, number + 1, marker.brokers, {})))
    closed = rounds_of(told(log))
    assert len(closed) <= MINUTES
    assert longest_gap(closed) <= 240
    assert closed[-1][0] > (MINUTES - 4) * 60
    assert sum(bool(one.stale) for _, one in closed) <= 4

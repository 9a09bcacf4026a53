"""Where load comes and goes, SteadyShedder moves what its forecast shows."""

from dataclasses import replace
from statistics import median
from struct import pack

import pytest

from benchmarks.load_series import CARDS, played
from strategies.cluster.model import BrokerLoad
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory, Memory
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.memory_format import Episode, LoadSample, episode_of
from strategies.shedding.steady.persistence_of_load import LOOK_MS, LOOKS, persistence
from strategies.shedding.steady.planned_cluster import YOUNG
from strategies.shedding.steady.settings import Steadiness, SteadySettings
from strategies.shedding.steady.steady_round import PAUSE_MS, SHOWN_MS, SteadyShedder
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, view
from tests.world.steady import history_of

_MINUTE_MS = 60_000
_NOW_MS = 1_000 * LOOK_MS + _MINUTE_MS
#: Eight hours in which brokers were 10 points from their averages, and elsewhere 20 minutes later.
_RESTLESS = Episode(looked_at_ms=1_000 * LOOK_MS, packed_looks=pack("<2f", 0.0, 100.0) * LOOKS)
_REFUSED = [("load-comes-and-goes", 20)]


@pytest.mark.lab
@pytest.mark.parametrize(
    ("card", "spread", "mib"), [("cron", 1.9, 600), ("no-memory", 1.4, 350), ("memory", 2.0, 60)]
)
def test_on_series_brokers_end_nearly_as_even_as_in_hindsight(
    card: str, spread: float, mib: float
) -> None:
    """`spread`: by the one of averages that nobody knows before; a few moves, none of them back."""
    best, nothing, done = (
        played(CARDS[card], strategy, 1) for strategy in ("hindsight", "no moves", "steady")
    )

    assert median(done.spreads) <= spread * median(best.spreads)
    assert done.full <= nothing.full
    assert done.moved <= mib * MIB
    assert done.back == 0


@pytest.mark.parametrize(
    ("usual", "averaged", "steadiness", "code"),
    [
        ((25, 25), 1_000, "default", None),
        ((37, 12), 1_000, "default", "forecast-gap"),
        ((28, 22), 1_000, "default", None),
        ((37, 12), YOUNG, "default", None),
        ((25, 25), 1_000, "tight", "lasting-gap"),
    ],
)
def test_where_load_comes_and_goes_the_forecast_decides(
    usual: tuple[float, float], averaged: int, steadiness: Steadiness, code: str | None
) -> None:
    shed = _shed(_RESTLESS, usual=usual, averaged=averaged, steadiness=steadiness)

    assert {one.code for one in shed.decisions} == ({code} if code else set())
    assert code or [(one.code, one.evidence["shown"]) for one in shed.skips] == _REFUSED


@pytest.mark.parametrize(("earlier", "moves"), [((20, 10), True), ((50, 10), False)])
def test_a_gap_after_a_fall_waits(earlier: tuple[float, float], moves: bool) -> None:
    assert bool(_shed(Episode(), usual=(25, 25), earlier=earlier).decisions) == moves


@pytest.mark.parametrize(
    ("now", "ago_ms", "moves"),
    [(40, PAUSE_MS, True), (40, PAUSE_MS - 1, False), (80, SHOWN_MS, True), (80, 0, False)],
)
def test_a_full_broker_does_not_wait(now: float, ago_ms: int, moves: bool) -> None:
    planned = _RESTLESS._replace(last_at_ms=_NOW_MS - ago_ms, planned=1)

    assert bool(_shed(planned, now=(now, 10), usual=(now - 3, 12)).decisions) == moves


@pytest.mark.parametrize(
    ("earlier", "since_ms", "goes"),
    [((40, 10), -1, False), ((41, 9), -1, False), ((10, 40), -1, True), ((10, 40), _NOW_MS, False)],
)
def test_a_look_learns_whether_load_lasts(
    earlier: tuple[float, float], since_ms: int, goes: bool
) -> None:
    """A deviation that stands still lasts, and samples of other bundles say nothing."""
    at_look = Episode(looked_at_ms=_NOW_MS - LOOK_MS)
    shed = _shed(at_look, usual=(25, 25), earlier=earlier, since_ms=since_ms)

    assert persistence(episode_of(shed.memory.cluster)).comes_and_goes == goes


@pytest.mark.parametrize(("now", "moves"), [((36, 14), True), ((27, 23), False)])
def test_a_gap_of_averages_waits_until_present_load_shows_it(
    now: tuple[float, float], moves: bool
) -> None:
    at_look = _RESTLESS._replace(looked_at_ms=_NOW_MS - LOOK_MS)

    shed = _shed(at_look, now=now, usual=(37, 12), earlier=(40, 10))

    assert bool(shed.decisions) == moves


def _shed(
    episode: Episode,
    *,
    usual: tuple[float, float],
    now: tuple[float, float] = (40, 10),
    averaged: int = 1_000,
    earlier: tuple[float, float] | None = None,
    steadiness: Steadiness = "default",
    since_ms: int = -1,
) -> Shedding:
    """A round of two brokers of ten bundles: `now` MiB/s, as many points above 10, `usual` ones on
    average, of `averaged` samples, and `earlier` in the first half of 20 minutes; `since_ms`:
    of the present bundles.
    """
    brokers, remembered = list[BrokerLoad](), dict[str, BrokerMemory]()
    for at, load in enumerate(now):
        brokers.append(_broker(at, load, usual[at], averaged))
        loads = [(earlier or now)[at]] * 10 + [load] * 9
        seen = (
            LoadSample(_NOW_MS - (19 - row) * _MINUTE_MS, 0.1 + one / 100, one * MIB, 0.0)
            for row, one in enumerate(loads)
        )
        history = history_of(seen, bundles=10)._replace(recounted_at_ms=since_ms)
        remembered[brokers[-1].broker] = BrokerMemory(history=history)
    memory = Memory(remembered, ClusterMemory(episode=episode))
    rule = SteadyShedder(SteadySettings(steadiness=steadiness), WEIGHTS)
    return rule.shed(replace(view(*brokers), now_ms=_NOW_MS), memory)


def _broker(at: int, now: float, usual: float, averaged: int) -> BrokerLoad:
    told = broker(f"b{at + 1}", 10 + now, now, bundles(*[now / 10] * 10, first=10 * at))
    table = told.bundles
    samples, traffic = table.long_samples * 0 + averaged, table.short * (usual / now)
    averages = replace(table, current=table.short, long=traffic, long_samples=samples)
    return replace(told, load_bundles=lambda: averages, reported_at_ms=_NOW_MS)

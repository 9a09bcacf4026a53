"""Where load comes and goes, SteadyShedder moves only what averages of bundles confirm."""

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.requested_runs import RunRequest, StrategyChoice
from pulsar_rebalancer.lab.simulation.metrics.figures import RunFigures
from pulsar_rebalancer.lab.simulation.scenario_loop import run
from pulsar_rebalancer.lab.simulation.scenarios.default_bundles import UNNAMED
from strategies.cluster.model import BrokerLoad
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory, Memory
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.fluctuating_load import ENOUGH, REMEMBERED_MS, YOUNG
from strategies.shedding.steady.memory_format import Episode, LoadSample
from strategies.shedding.steady.settings import Steadiness, SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, view
from tests.world.steady import history_of

_MINUTE_MS = 60_000
_NOW_MS = 1_000 * _MINUTE_MS
#: Plans of the last hours met load that had risen, and load that had fallen.
_RESTLESS = Episode(rose_until_ms=_NOW_MS + 1, fell_until_ms=_NOW_MS + 1)
#: Six topics of two brokers that are on for twelve minutes and off for twelve.
_BATCHES = Path(__file__).parents[1] / "data" / "batches.toml"


@pytest.mark.lab
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_batches_move_few_bundles_and_overload_brokers_no_longer_than_without_moves(
    seed: int,
) -> None:
    done = _figures(seed)
    without = _figures(seed, f"limits.excluded_namespaces={UNNAMED}")

    assert without["bundles_moved"] == 0
    assert done["bundles_moved"] <= 2
    assert done["overload_minutes"] <= without["overload_minutes"]


@pytest.mark.parametrize(
    ("usual", "averaged", "steadiness", "moves"),
    [
        ((25, 25), 1_000, "default", False),
        ((37, 12), 1_000, "default", True),
        ((37, 18), 1_000, "default", False),
        ((37, 12), ENOUGH - 1, "default", False),
        ((25, 25), 1_000, "tight", True),
    ],
    ids=["not in averages", "in averages", "in part", "in young averages", "not, tight"],
)
def test_where_load_comes_and_goes_the_averages_confirm_a_gap(
    usual: tuple[float, float], averaged: int, steadiness: Steadiness, moves: bool
) -> None:
    shed = _shed(_RESTLESS, usual=usual, averaged=averaged, steadiness=steadiness)

    assert bool(shed.decisions) == moves
    assert moves or [one.code for one in shed.skips] == ["load-comes-and-goes"]


def test_a_step_is_answered_at_once_whatever_the_averages_say() -> None:
    shed = _shed(Episode(), usual=(10, 10))

    assert shed.decisions != ()
    assert Episode(*shed.memory.cluster.episode).rose_until_ms == _NOW_MS + REMEMBERED_MS
    assert Episode(*shed.memory.cluster.episode).fell_until_ms == -1


def test_a_gap_because_load_fell_counts_once_it_has_lasted() -> None:
    young = _shed(Episode(), usual=(40, 40), samples=3)
    old = _shed(Episode(), usual=(40, 40), samples=20)

    assert [one.code for one in young.skips] == ["load-comes-and-goes"]
    assert Episode(*young.memory.cluster.episode).fell_until_ms == _NOW_MS + REMEMBERED_MS
    assert old.decisions != ()


def test_a_step_after_load_fell_needs_the_averages_for_four_hours() -> None:
    fell = Episode(fell_until_ms=_NOW_MS + 1)

    assert _shed(fell, usual=(10, 10)).decisions == ()
    forgotten = fell._replace(fell_until_ms=_NOW_MS)
    assert _shed(forgotten, usual=(10, 10)).decisions != ()


def test_load_that_goes_to_another_broker_at_once_is_a_step() -> None:
    once = _shed(Episode(), usual=(25, 25))
    again = _shed(Episode(*once.memory.cluster.episode)._replace(began_at_ms=-1), usual=(25, 25))
    young = _shed(Episode(), usual=(25, 25), averaged=YOUNG - 1)

    assert once.decisions != ()
    assert again.decisions != ()  # nobody carried out the first plan
    assert young.decisions == ()


def _figures(seed: int, *overrides: str) -> RunFigures:
    choice = StrategyChoice("steady", "fixed")
    return run(RunRequest(str(_BATCHES), seed, choice, overrides=overrides).task()).figures


def _shed(
    episode: Episode,
    *,
    usual: tuple[float, float],
    samples: int = 20,
    averaged: int = 1_000,
    steadiness: Steadiness = "default",
) -> Shedding:
    """A round of two brokers of ten bundles with 40 and 10 MiB/s, which are as many points above
    10, and `usual` ones on average of `averaged` samples, after `samples` minutes like this one.
    """
    brokers, remembered = list[BrokerLoad](), dict[str, BrokerMemory]()
    for at, now in enumerate((40, 10)):
        brokers.append(_broker(at, now, usual[at], averaged))
        seen = (
            LoadSample(_NOW_MS - ago * _MINUTE_MS, 0.1 + now / 100, now * MIB, 0.0)
            for ago in range(samples - 1, 0, -1)
        )
        remembered[brokers[-1].broker] = BrokerMemory(history=history_of(seen, bundles=10))
    memory = Memory(remembered, ClusterMemory(episode=episode))
    rule = SteadyShedder(SteadySettings(steadiness=steadiness), WEIGHTS)
    return rule.shed(replace(view(*brokers), now_ms=_NOW_MS), memory)


def _broker(at: int, now: float, usual: float, averaged: int) -> BrokerLoad:
    told = broker(f"b{at + 1}", 10 + now, now, bundles(*[now / 10] * 10, first=10 * at))
    table = told.bundles
    samples, traffic = table.long_samples * 0 + averaged, table.short * (usual / now)
    averages = replace(table, current=table.short, long=traffic, long_samples=samples)
    return replace(told, load_bundles=lambda: averages, reported_at_ms=_NOW_MS)

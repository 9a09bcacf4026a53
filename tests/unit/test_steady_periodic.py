"""Where load comes and goes, SteadyShedder moves only what the averages of bundles confirm: topics
that are on for some minutes and off for some let brokers take turns, and a move by the newest
figures is undone by the next ones.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.runs import RunRequest, StrategyChoice
from pulsar_rebalancer.lab.simulation.metrics.figures import RunFigures
from pulsar_rebalancer.lab.simulation.run import run
from pulsar_rebalancer.lab.simulation.scenarios.default_bundles import UNNAMED
from strategies.cluster.memory import BrokerMemory, ClusterMemory, Memory
from strategies.cluster.model import BrokerLoad
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.load_history import Episode, LoadSample
from strategies.shedding.steady.obstacles import ENOUGH, REMEMBERED_MS, YOUNG
from strategies.shedding.steady.settings import Steadiness, SteadySettings
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


def test_a_gap_that_the_averages_do_not_show_moves_nothing() -> None:
    shed = _shed(_RESTLESS, now=(40, 10), usual=(25, 25))

    assert shed.decisions == ()
    assert [one.code for one in shed.skips] == ["load-comes-and-goes"]


def test_a_gap_that_the_averages_show_as_well_moves_bundles() -> None:
    assert _shed(_RESTLESS, now=(40, 10), usual=(37, 12)).decisions != ()


def test_young_averages_confirm_nothing() -> None:
    shed = _shed(_RESTLESS, now=(40, 10), usual=(37, 12), averaged=ENOUGH - 1)

    assert [one.code for one in shed.skips] == ["load-comes-and-goes"]


def test_a_step_is_answered_at_once_whatever_the_averages_say() -> None:
    shed = _shed(Episode(), now=(40, 10), usual=(10, 10))

    assert shed.decisions != ()
    assert Episode(*shed.memory.cluster.episode).rose_until_ms == _NOW_MS + REMEMBERED_MS
    assert Episode(*shed.memory.cluster.episode).fell_until_ms == -1


def test_a_gap_because_load_fell_counts_once_it_has_lasted() -> None:
    young = _shed(Episode(), now=(40, 10), usual=(40, 40), samples=3)
    old = _shed(Episode(), now=(40, 10), usual=(40, 40), samples=20)

    assert [one.code for one in young.skips] == ["load-comes-and-goes"]
    assert Episode(*young.memory.cluster.episode).fell_until_ms == _NOW_MS + REMEMBERED_MS
    assert old.decisions != ()


def test_a_step_after_load_fell_needs_the_averages_for_four_hours() -> None:
    fell = Episode(fell_until_ms=_NOW_MS + 1)

    assert _shed(fell, now=(40, 10), usual=(10, 10)).decisions == ()
    forgotten = fell._replace(fell_until_ms=_NOW_MS)
    assert _shed(forgotten, now=(40, 10), usual=(10, 10)).decisions != ()


def test_load_that_goes_to_another_broker_at_once_is_a_step() -> None:
    once = _shed(Episode(), now=(40, 10), usual=(25, 25))
    again = _shed(
        Episode(*once.memory.cluster.episode)._replace(began_at_ms=-1), now=(40, 10), usual=(25, 25)
    )
    young = _shed(Episode(), now=(40, 10), usual=(25, 25), averaged=YOUNG - 1)

    assert once.decisions != ()
    assert again.decisions != ()  # nobody carried out the first plan
    assert young.decisions == ()


def test_tight_follows_load_that_comes_and_goes() -> None:
    assert _shed(_RESTLESS, now=(40, 10), usual=(25, 25), steadiness="tight").decisions != ()


def _figures(seed: int, *overrides: str) -> RunFigures:
    choice = StrategyChoice("steady", "fixed")
    return run(RunRequest(str(_BATCHES), seed, choice, overrides=overrides).task()).figures


def _shed(
    episode: Episode,
    *,
    now: tuple[float, float],
    usual: tuple[float, float],
    samples: int = 20,
    averaged: int = 1_000,
    steadiness: Steadiness = "default",
) -> Shedding:
    """A round of two brokers of ten bundles with this traffic (MiB/s, which is as many points above
    10), now and on average of `averaged` samples, after `samples` minutes like this one.
    """
    brokers = [_broker(at, now[at], usual[at], averaged) for at in range(2)]
    histories = {
        one.broker: history_of(
            [
                LoadSample(_NOW_MS - at * _MINUTE_MS, 0.1 + traffic / 100, traffic * MIB, 0.0)
                for at in range(samples - 1, 0, -1)
            ],
            bundles=10,
        )
        for one, traffic in zip(brokers, now, strict=True)
    }
    memory = Memory(
        {name: BrokerMemory(history=one) for name, one in histories.items()},
        ClusterMemory(episode=episode),
    )
    rule = SteadyShedder(SteadySettings(steadiness=steadiness), WEIGHTS)
    return rule.shed(replace(view(*brokers), now_ms=_NOW_MS), memory)


def _broker(at: int, now: float, usual: float, averaged: int) -> BrokerLoad:
    told = broker(f"b{at + 1}", 10 + now, now, bundles(*[now / 10] * 10, first=10 * at))
    table = told.bundles
    averages = replace(
        table,
        current=table.short,
        long=table.short * (usual / now),
        long_samples=table.long_samples * 0 + averaged,
    )
    return replace(told, load_bundles=lambda: averages, reported_at_ms=_NOW_MS)

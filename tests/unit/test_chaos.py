"""Rounds in which everything goes wrong keep their promises; see scripts/chaos.py."""

import pytest

from scripts.chaos_rounds import chaos
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.steady.settings import Steadiness, SteadySettings

pytestmark = pytest.mark.lab

TIGHT = LimitSettings(
    moves_per_round=4, moves_per_hour=25, moved_mib_per_round=120, moved_mib_per_hour=500
)


@pytest.mark.parametrize("strategy", SHEDDERS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_the_promises_hold_whatever_happens(strategy: str, seed: int) -> None:
    done = chaos(seed, EngineSettings(strategy=strategy, limits=TIGHT), rounds=120)
    assert done.broken == ()
    assert done.reports > 120 * 3
    assert done.reports == done.taken + done.refused
    assert done.refused < done.reports / 5


HEAVY = [pytest.param(*one, marks=pytest.mark.heavy) for one in ((3, "default"), (5, "tight"))]


@pytest.mark.parametrize(("seed", "steadiness"), [(4, "default"), *HEAVY])
def test_the_promises_hold_with_a_wrong_clock_and_commands_that_end_elsewhere(
    seed: int, steadiness: Steadiness
) -> None:
    settings = EngineSettings("steady", shedding=SteadySettings(steadiness), limits=TIGHT)
    done = chaos(seed, settings, rounds=120, harsh=True)
    assert done.broken == ()
    assert done.reports == done.taken + done.refused


@pytest.mark.slow
@pytest.mark.parametrize("steadiness", ["default", "tight"])
@pytest.mark.parametrize("seed", range(1, 21))
def test_a_thousand_rounds_of_steady_keep_what_it_promises(
    seed: int, steadiness: Steadiness
) -> None:
    settings = EngineSettings("steady", shedding=SteadySettings(steadiness))
    done = chaos(seed, settings, rounds=1000, harsh=True)
    assert done.broken == ()
    assert done.moves > 0


@pytest.mark.heavy
def test_everything_that_can_go_wrong_does() -> None:
    done = chaos(4, EngineSettings(strategy="overload"), rounds=400, harsh=True)
    assert set(done.disturbed) == {
        *("broker joins", "broker leaves", "broker dies"),
        *("report lost", "report late", "report twice"),
        *("command lost", "command slow", "command twice", "command expired"),
        *("outcome lost", "outcome late", "outcome twice"),
        *("clock wrong", "command refused", "command elsewhere", "bundle splits"),
    }

"""The benchmark of targets runs real scenarios, and its verdicts depend on what it measures."""

import json

import pytest

from benchmarks import targets
from benchmarks.disturbed_runs import (
    QUIET,
    RIVAL,
    TOGETHER,
    DisturbedCase,
    DisturbedFigures,
    disturbed_figures,
    robust_rows,
)
from benchmarks.steady_constants import Change, changed
from benchmarks.target_table import TARGETS
from benchmarks.targets import Case, figures
from strategies.shedding.steady import greedy_move_search, settings
from strategies.shedding.steady.lasting_gaps import PLAIN

pytestmark = pytest.mark.lab


def test_a_run_prints_a_verdict_for_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    code = targets.main(
        ["--cards", "e7", "--seeds", "1-1", "--bundles", "64", "--alone", "--jobs", "1", "--json"],
    )
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["target"] for row in rows] == [target.text for target in TARGETS["e7"]]
    assert code == int(any(row["held"] == "no" for row in rows))


def test_a_changed_constant_changes_a_run_and_nothing_after_it() -> None:
    usual = figures(Case("e7", 64, 1))
    wider = figures(Case("e7", 64, 1, change=Change("profile.plain", 60.0)))
    assert wider["rounds_to_first_command"] > usual["rounds_to_first_command"]
    assert figures(Case("e7", 64, 1)) == usual
    with changed(Change("greedy_move_search.WORTH", 0.9)):
        assert greedy_move_search.WORTH == 0.9
    assert (greedy_move_search.WORTH, settings.PROFILES["default"].plain, PLAIN) == (0.5, 14.5, 3)


def _disturbed(moved: float, spread: float, rival: float = 0.0) -> DisturbedFigures:
    return DisturbedFigures(moved, rival, 1.0, spread, spread, calm=False)


def test_a_disturbed_run_is_compared_with_the_quiet_run_of_its_card() -> None:
    found = {
        ("e7", 16, QUIET): [_disturbed(50, 4)],
        ("e7", 16, "moved too much"): [_disturbed(101, 4)],
        ("e7", 16, "uneven"): [_disturbed(50, 6.1)],
        ("e7", 16, "within both"): [_disturbed(100, 6)],
        ("e7", 16, RIVAL): [_disturbed(130, 4, rival=30)],
    }
    assert [row["held"] for row in robust_rows(found)] == ["yes", "no", "no", "yes", "yes"]


def test_a_calm_card_must_stay_still_without_a_rival() -> None:
    still = DisturbedFigures(0.0, 0.0, 0.0, 4.0, 4.0, calm=True)
    moving = DisturbedFigures(3.0, 0.0, 1.0, 4.0, 4.0, calm=True)
    found = {
        ("e2", 16, QUIET): [still] * 20,
        ("e2", 16, "one seed"): [still] * 19 + [moving],
        ("e2", 16, "two seeds"): [still] * 18 + [moving] * 2,
    }
    assert [row["held"] for row in robust_rows(found)] == ["yes", "yes", "no"]


def test_all_disturbances_together_run_to_the_end() -> None:
    run = disturbed_figures(DisturbedCase("e9", 16, TOGETHER, 2))
    assert run.rival > 0
    assert run.moves > 0

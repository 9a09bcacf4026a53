"""`rebalancer simulate`: runs, tables, the comparison with published figures, and what it says about files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.simulate.against import percentile
from simulation.scenarios import shelf
from strategies.errors import SettingsError

SMALL = """
# Three brokers, one of which carries nearly everything.
title = "one is hot"
minutes = 12
bundles = 12
[machines.plain]
cpu_per_mib = 8
[noise]
cpu_points = 0.5
[[brokers]]
machine = "plain"
count = 3
[start]
deal = "traffic"
shares = [8, 1, 1]
[[traffic]]
name = "all"
mib_in = 120
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_a_hot_broker_is_relieved_and_the_table_says_so(small: Path) -> None:
    answer = CliRunner().invoke(app, ["simulate", str(small), "--seeds", "2", "--jobs", "1", "--strategy", "threshold/fixed", "--json"])
    assert answer.exit_code == 0, answer.output
    runs = json.loads(answer.stdout)["runs"]
    assert [run["seed"] for run in runs] == [1, 2]
    for run in runs:
        assert run["strategy"] == "threshold/fixed+LLTMR"
        assert run["figures"]["bundles_moved"] > 0
        assert run["figures"]["lasting_spread"] < run["figures"]["start_spread"] / 2
        assert run["figures"]["moved_mib"] >= run["figures"]["least_mib"] * 0.99
        assert run["figures"]["share_with_reason"] == 1.0


def test_scenarios_are_listed_with_their_stories() -> None:
    answer = CliRunner().invoke(app, ["simulate", "--list", "--json"])
    listed = json.loads(answer.stdout)["scenarios"]
    assert [one["name"] for one in listed] == list(shelf.names())
    for one in listed:
        assert len(one["story"]) > 40, one["name"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("minutes = 1", "minutes: Input should be greater than or equal to 2"),
        ('colour = "red"', "colour: Extra inputs are not permitted"),
        ('minutes = "long"', "minutes: Input should be a valid integer"),
        ("minutes = [", "is not TOML"),
    ],
)
def test_a_bad_file_is_complained_about_by_its_place(tmp_path: Path, change: str, complaint: str) -> None:
    path = tmp_path / "bad.toml"
    key = change.partition(" ")[0]
    path.write_text(change + "\n" + "\n".join(line for line in SMALL.splitlines() if not line.startswith(key)))
    with pytest.raises(SettingsError) as caught:
        shelf.load(str(path))
    assert f"{path}: {complaint}" in caught.value.complaints[0]


def test_nothing_runs_that_was_not_named() -> None:
    answer = CliRunner().invoke(app, ["simulate"])
    assert answer.exit_code == 2
    assert "--list" in answer.stderr


def test_an_unknown_scenario_or_strategy_is_named_with_the_next_step(small: Path) -> None:
    answer = CliRunner().invoke(app, ["simulate", "e99"])
    assert answer.exit_code == 2
    assert "e99: no such scenario; rebalancer simulate --list" in answer.output
    answer = CliRunner().invoke(app, ["simulate", str(small), "--strategy", "magic"])
    assert answer.exit_code == 2
    assert "shedding.strategy: must be one of" in answer.output


def test_a_published_run_is_one_draw_among_the_seeds() -> None:
    assert percentile(3, [1, 2, 3, 4]) == 62.5
    assert percentile(0, [1, 2, 3, 4]) == 0
    assert percentile(3.4, [1, 2, 3, 4], tolerance=0.5) == 62.5
    assert percentile(9, [1, 2, float("inf"), float("nan")]) == pytest.approx(66.7, abs=0.1)

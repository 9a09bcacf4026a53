"""`rebalancer simulate`: runs, tables, the comparison with published figures, and what it says
about files that are none.
"""

import json
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.command_runs.simulate.published import percentile
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
from strategies.errors import SettingsError
from strategies.shedding.registry import SHEDDERS
from tests.unit.command_line import Answer, rebalancer

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


def simulated(scenario: object, *words: object, seeds: int = 1) -> Answer:
    answer = rebalancer("simulate", scenario, "--seeds", seeds, "--jobs", 1, *words)
    assert answer.code == 0, answer.words
    return answer


@pytest.mark.parametrize(("scenario", "drains"), [("namespaces", False), ("rolling-restart", True)])
def test_the_telemetry_of_a_run_is_recorded_with_policies_and_intents(
    tmp_path: Path, scenario: str, drains: bool
) -> None:
    recording = tmp_path / "run.jsonl.gz"
    simulated(scenario, "--minutes", 24, "--record", recording)
    replayed = rebalancer("replay", recording, "--json").json
    assert (replayed["rejected"]["total"], replayed["rounds"]) == (0, 24)
    assert (replayed["commands"] > 0) is drains
    again = rebalancer("simulate", scenario, "--record", recording)
    assert (again.code, "--force replaces it" in again.words) == (2, True)


def test_a_hot_broker_is_relieved_and_the_table_says_so(small: Path) -> None:
    runs = simulated(small, "--strategy", "threshold/fixed", "--json", seeds=2).json["runs"]
    assert [run["seed"] for run in runs] == [1, 2]
    for run in runs:
        assert run["strategy"] == "threshold/fixed+LLTMR"
        assert run["figures"]["bundles_moved"] > 0
        assert run["figures"]["lasting_spread"] < run["figures"]["start_spread"] / 2
        assert run["figures"]["moved_mib"] >= run["figures"]["least_mib"] * 0.99
        assert run["figures"]["share_with_reason"] == 1.0
        assert run["figures"]["prediction_error"] > 0
        assert (run["figures"]["useless_moves"], run["figures"]["returns"]) == (0, 0)


@pytest.mark.heavy
@pytest.mark.parametrize(("bundles", "told"), [(12, False), (2, True)])
def test_a_bundle_that_no_move_can_even_out_is_named_below_the_table(
    bundles: int, told: bool, small: Path
) -> None:
    assert ("only a split" in simulated(small, "--bundles", bundles).out) == told


@pytest.mark.heavy
@pytest.mark.parametrize(("release", "number"), [("4.2", "4"), ("5.0", "32")])
def test_a_release_gives_the_bundles_of_its_new_namespaces(
    release: str, number: str, small: Path
) -> None:
    named, counted, other = (
        json.dumps(simulated(small, "--json", "--bundles", bundles).json["runs"])
        for bundles in (release, number, "12")
    )
    assert named == counted != other


def test_scenarios_are_listed_with_their_stories() -> None:
    listed = rebalancer("simulate", "--list", "--json").json["scenarios"]
    assert [one["name"] for one in listed] == list(read_scenarios.names())
    for one in listed:
        assert len(one["story"]) > 40, one["name"]


def test_all_scenarios_and_strategies_are_checked_before_the_first_run_and_each_place_is_named(
    small: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(
        f'{SMALL}\n[strategy]\nname = "avgg"\n[settings]\nshedding.avg.low_treshold = '
        '3\n"limits.moves_per_round" = "x"\n'
    )
    words = (other, small, "e7-avg-eqal", "none.toml", "--mode", "bogus")
    answer = rebalancer("simulate", *words)
    *others, last = SHEDDERS
    assert answer.code == 2
    assert [line.removeprefix("error: ") for line in answer.err.splitlines()] == [
        "shedding.avg.low_treshold: unknown setting; did you mean "
        f"shedding.avg.low_threshold? ([settings] of {other})",
        f"shedding.strategy: must be one of {', '.join(map(repr, others))} or {last!r}, "
        f'got "avgg"; did you mean avg? ([strategy] of {other})',
        "shedding.mode: must be one of 'fixed' or 'parity', got \"bogus\" (--mode)",
        f'limits.moves_per_round: must be a whole number, got "x" ([settings] of {other})',
        "e7-avg-eqal: no such scenario; did you mean e7-avg-equal?",
        "none.toml: no such file; write one (see docs/SIMULATION.md), or name a scenario of "
        "rebalancer simulate --list",
    ]


@pytest.mark.heavy
def test_the_mode_of_the_command_line_wins_over_the_scenarios(small: Path) -> None:
    for flags, label in (
        ([], "steady/fixed+none"),
        (["--mode", "parity"], "steady/parity+none"),
        (["--strategy", "avg/fixed", "--mode", "parity"], "avg/fixed+avg"),
    ):
        assert simulated(small, "--json", *flags).json["runs"][0]["strategy"] == label


def test_a_published_run_is_one_draw_among_the_seeds() -> None:
    assert percentile(3, [1, 2, 3, 4]) == 62.5
    assert percentile(0, [1, 2, 3, 4]) == 0
    assert percentile(3.4, [1, 2, 3, 4], tolerance=0.5) == 62.5
    assert percentile(9, [1, 2, float("inf"), float("nan")]) == pytest.approx(66.7, abs=0.1)


@pytest.mark.lab
def test_the_table_of_a_roll_is_that_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "SIMULATION.md").read_text()
    table = page[page.index("rolling-restart: drains and rolls\n") :].partition("```")[0]
    assert table in simulated("rolling-restart", seeds=3).out


@pytest.mark.heavy
def test_drains_are_in_the_json_document(small: Path) -> None:
    small.write_text(f'{SMALL}[[happenings]]\nminute = 2\nkind = "drain"\nbrokers = ["broker-2"]\n')
    (run,) = simulated(small, "--json").json["runs"]
    (drain,) = run["operations"]
    assert (drain["what"], drain["state"]) == ("drain of broker-2:8080", "drained")
    assert drain["evacuated"] > 0


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("minutes = [")
    with pytest.raises(SettingsError, match="not valid TOML"):
        read_scenarios.load(str(tmp_path / "bad.toml"))

"""`rebalancer simulate`: runs, tables, the comparison with published figures, and what it says
about files that are none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pulsar_rebalancer.cli.main import app
from pulsar_rebalancer.lab.simulation.scenarios import catalog
from pulsar_rebalancer.lab.tables.simulate.published import percentile
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
    answer = CliRunner().invoke(
        app,
        [
            "simulate",
            str(small),
            "--seeds",
            "2",
            "--jobs",
            "1",
            "--strategy",
            "threshold/fixed",
            "--json",
        ],
    )
    assert answer.exit_code == 0, answer.output
    runs = json.loads(answer.stdout)["runs"]
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
    answer = CliRunner().invoke(
        app, ["simulate", str(small), "--seeds", "1", "--jobs", "1", "--bundles", str(bundles)]
    )
    assert ("only a split" in answer.stdout) == told


def runs_with(small: Path, bundles: str) -> str:
    words = ["simulate", str(small), "--seeds", "1", "--jobs", "1", "--json", "--bundles", bundles]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    return json.dumps(json.loads(answer.stdout)["runs"])


@pytest.mark.heavy
@pytest.mark.parametrize(("release", "number"), [("4.2", "4"), ("5.0", "32")])
def test_a_release_gives_the_bundles_of_its_new_namespaces(
    release: str, number: str, small: Path
) -> None:
    assert runs_with(small, release) == runs_with(small, number)
    assert runs_with(small, release) != runs_with(small, "12")


@pytest.mark.parametrize("bundles", ["0", "-4", "five", "6.1", "", "1e3", "9" * 5000])
def test_other_bundles_are_refused_with_a_sentence(bundles: str, small: Path) -> None:
    answer = CliRunner().invoke(app, ["simulate", str(small), f"--bundles={bundles}"])

    assert answer.exit_code == 2
    assert "a Pulsar release (4.2 or 5.0)" in " ".join(answer.stderr.split())


def test_scenarios_are_listed_with_their_stories() -> None:
    answer = CliRunner().invoke(app, ["simulate", "--list", "--json"])
    listed = json.loads(answer.stdout)["scenarios"]
    assert [one["name"] for one in listed] == list(catalog.names())
    for one in listed:
        assert len(one["story"]) > 40, one["name"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("minutes = 1", "minutes: must be at least 2, got 1"),
        ('colour = "red"', "colour: unknown key; known here: brokers, bundles, "),
        ("bundels = 5", "bundels: unknown key; did you mean bundles?"),
        ('minutes = "long"', 'minutes: must be a whole number, got "long"'),
        ("minutes = [", "not valid TOML"),
        (
            "machines.other = { cpu_per_mb = 1 }",
            "machines.other.cpu_per_mb: unknown key; did you mean cpu_per_mib?",
        ),
        (
            'machines.internal = { cores = "many" }',
            'machines.internal.cores: must be a number, got "many"',
        ),
        (
            '[[namespaces]]\nname = "orders"',
            "namespaces[1].name: must be tenant/namespace, each of letters",
        ),
        (
            '[[brokers]]\nmachine = "plain"\nnames = ["a b"]',
            "brokers[2].names[1]: may contain letters, digits, '.', '_' and '-' only",
        ),
        (
            '[[happenings]]\nminute = 3\nkind = "kill"\nbrokers = ["b"]',
            "happenings: no broker b; known: broker-1, broker-2, broker-3",
        ),
        (
            '[[happenings]]\nminute = 12\nkind = "kill"\nbrokers = ["broker-1"]',
            "happenings: minute 12 is not before the scenario's end, minute 12",
        ),
        (
            '[[traffic]]\nname = "b"\nmib_in = "ten"',
            'traffic[1].mib_in: must be a number, got "ten"',
        ),
        (
            '[[traffic]]\nname = "b"\nmib_in = 1\nwave = { kind = "daily", amplitude = 2 }',
            "traffic[1].wave.amplitude: must be at most 1, got 2",
        ),
        (
            '[[traffic]]\nname = "b"\nmib_in = 1\nwave = { kind = "tide" }',
            "traffic[1].wave: kind must be one of 'steps', 'on-off', 'daily', 'trace'",
        ),
        (
            '[[traffic]]\nname = "b"\nmib_in = 1\nwave = { kind = "daily", amplitud = 1 }',
            "traffic[1].wave.amplitude: is missing",
        ),
    ],
)
def test_a_bad_file_is_complained_about_by_its_place(
    tmp_path: Path, change: str, complaint: str
) -> None:
    path = tmp_path / "bad.toml"
    key = change.partition(" ")[0]
    rest = "\n".join(line for line in SMALL.splitlines() if not line.startswith(key))
    if change.startswith("["):
        head, table = rest.split("[[traffic]]")
        rest, change = f"{head}{change}\n[[traffic]]{table}", ""
    path.write_text(f"{change}\n{rest}")
    with pytest.raises(SettingsError) as caught:
        catalog.load(str(path))
    assert f"{path}: {complaint}" in caught.value.complaints[0]


def test_every_mistake_is_told_once_and_none_that_only_follows_from_another(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'title = ""\nminutes = 2.5\nbundels = 3\n[[brokers]]\nmachine = '
        '"m"\n[[traffic]]\nmib_in = "ten"\n[start]\ndeal = "usage"\n'
    )
    with pytest.raises(SettingsError) as caught:
        catalog.load(str(path))
    assert [
        complaint.removeprefix(f"{path}: ").partition(": ")[0]
        for complaint in caught.value.complaints
    ] == [
        "title",
        "minutes",
        "brokers[1]",
        "traffic[1].name",
        "traffic[1].mib_in",
        "start",
        "bundels",
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"brokers": [{"machine": "big", "names": ["a", "a"]}], "start": {}},
            ["brokers: two have the name a", "brokers: no machine 'big'"],
        ),
        (
            {"start": {"deal": "traffic", "shares": [1, 2]}},
            ["start.shares: 2 figures for 3 brokers"],
        ),
        (
            {"start": {"deal": "traffic", "shares": [0, 0, 0]}},
            ["start.shares: at least one must be more than 0"],
        ),
        (
            {"start": {"deal": "usage", "shares": [5, 4, 3]}},
            ["start.shares: usage in percent; at least one must be above the cpu_idle"],
        ),
        (
            {"start": {"deal": "usage", "shares": [9, 9, 9]}, "machines": {"plain": {}}},
            ['start: deal = "usage" needs traffic that costs CPU'],
        ),
        (
            {"brokers": [{"machine": "plain", "count": 1, "joins": 3}], "start": {}},
            ["brokers: at least one must be present at minute 0"],
        ),
    ],
)
def test_what_does_not_fit_together_is_told_all_at_once(
    small: Path, changes: dict[str, Any], says: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        catalog.load(str(small), changes)
    assert len(caught.value.complaints) == len(says)
    for complaint, begin in zip(caught.value.complaints, says, strict=True):
        assert complaint.startswith(f"{small}: {begin}")


def test_all_scenarios_and_strategies_are_checked_before_the_first_run_and_each_place_is_named(
    small: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(
        f'{SMALL}\n[strategy]\nname = "avgg"\n[settings]\nshedding.avg.low_treshold = '
        '3\n"limits.moves_per_round" = "x"\n'
    )
    answer = CliRunner().invoke(
        app, ["simulate", str(other), str(small), "e7-avg-eqal", "none.toml", "--mode", "bogus"]
    )
    assert answer.exit_code == 2
    assert [line.removeprefix("error: ") for line in answer.stderr.splitlines()] == [
        "shedding.avg.low_treshold: unknown setting; did you mean "
        f"shedding.avg.low_threshold? ([settings] of {other})",
        "shedding.strategy: must be one of 'threshold', 'avg', 'overload', 'uniform', "
        "'transfer' or 'steady', got \"avgg\"; did you mean avg? "
        f"([strategy] of {other})",
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
        answer = CliRunner().invoke(app, ["simulate", str(small), "--seeds", "1", "--json", *flags])
        assert json.loads(answer.stdout)["runs"][0]["strategy"] == label


def test_published_and_all_stand_alone(small: Path) -> None:
    for word in ("published", "all"):
        answer = CliRunner().invoke(app, ["simulate", word, str(small)])
        assert answer.exit_code == 2
        assert f"{word} cannot be combined" in answer.stderr


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


@pytest.mark.lab
def test_the_table_of_a_roll_is_that_of_the_page() -> None:
    line = ["simulate", "rolling-restart", "--seeds", "3", "--jobs", "1"]
    answer = CliRunner().invoke(app, line, env={"COLUMNS": "120"})
    assert answer.exit_code == 0, answer.output
    page = (Path(__file__).parents[2] / "docs" / "SIMULATION.md").read_text()
    table = page[page.index("rolling-restart: drains and rolls\n") :].partition("```")[0]
    assert table in answer.output


@pytest.mark.heavy
def test_drains_are_in_the_json_document(small: Path) -> None:
    small.write_text(f'{SMALL}[[happenings]]\nminute = 2\nkind = "drain"\nbrokers = ["broker-2"]\n')
    answer = CliRunner().invoke(
        app, ["simulate", str(small), "--seeds", "1", "--jobs", "1", "--json"]
    )
    (run,) = json.loads(answer.stdout)["runs"]
    (drain,) = run["operations"]
    assert (drain["what"], drain["state"]) == ("drain of broker-2:8080", "drained")
    assert drain["evacuated"] > 0

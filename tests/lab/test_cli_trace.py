"""`rebalancer trace`: the load of a recording, put into a scenario that runs under it; the whole
way, and what may be in the way.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from pulsar_rebalancer.lab.requested_runs import RunRequest, make
from tests.architecture.command_line import ROOT
from tests.telemetry_lines import broker_load, bundle, line, load_report, sweep, top_bundles
from tests.unit.command_line import Answer, rebalancer
from tests.world.uneven_log import recorded

A, B = "a:8080", "b:8080"
ORDERS, CLICKS, OWN = bundle(0, "shop/orders"), bundle(0, "shop/clicks"), bundle(0, "pulsar/a:8080")
MIB_A_SECOND = 1024.0
REST = """
title = "as it was recorded"
[machines.plain]
cores = 16
cpu_per_mib = 4
[[brokers]]
machine = "plain"
count = 2
"""


def passes(*loads: Mapping[str, Mapping[str, float]]) -> list[bytes]:
    """One pass a minute: broker → bundle → MiB/s in and out, of 1 KiB messages; whoever is not
    there any more is gone.
    """
    lines = []
    for minute, pass_ in enumerate(loads):
        told = {
            broker: {name: mib * MIB_A_SECOND for name, mib in bundles.items()}
            for broker, bundles in pass_.items()
        }
        lines += [load_report(broker, 60 * minute, rates) for broker, rates in told.items()]
        lines.append(sweep(60 * minute + 1, *told))
    return lines


def recording(folder: Path, lines: Iterable[bytes], name: str = "log.jsonl") -> Path:
    return recorded(folder, list(lines), name)


def figures(file: Path) -> tuple[Sequence[str], list[list[float]]]:
    """Names of the columns and the columns, without the seconds."""
    heading, *lines = file.read_text("utf-8").splitlines()
    table = np.array([[float(figure) for figure in one.split(",")] for one in lines])
    return heading.split(",")[1:], table[:, 1:].T.tolist()


def traced(folder: Path, lines: Iterable[bytes], *words: object) -> tuple[Answer, Path]:
    target = folder / "load.csv"
    answer = rebalancer("trace", recording(folder, lines), target, *words)
    return answer, target


RISING = passes(*({A: {ORDERS: 2.0 + minute, OWN: 0.5}, B: {CLICKS: 4.0}} for minute in range(6)))


@pytest.mark.heavy
@pytest.mark.parametrize("per", ["cluster", "namespace"])
def test_from_a_recording_to_a_simulated_cluster_under_its_load(tmp_path: Path, per: str) -> None:
    answer, _ = traced(tmp_path, RISING, "--per", per)
    assert answer.code == 0, answer.err
    assert "load.csv: 5 figures" in answer.err
    top, _, tables = answer.out.partition("\n\n")
    scenario = tmp_path / "mine.toml"
    scenario.write_text(f"{top}{REST}{tables}")
    done = make(RunRequest(str(scenario), 1), keep=True)

    assert done.timeline is not None
    assert done.timeline.rounds == 5
    in_and_out = done.timeline.msg_throughput.sum(axis=1) / 2**20
    own = 0.5 if per == "cluster" else 0.0
    # What a round sees was measured in the minute before or the one before that; before the start
    # all is as at the start.
    known = [2 * (6 + own + minute) for minute in (0, 0, *range(5))]
    for minute in range(5):
        assert known[minute] * 0.99 <= in_and_out[minute] <= known[minute + 1] * 1.01
    assert in_and_out[4] > in_and_out[1] + 4
    command = rebalancer("simulate", scenario, "--seeds", 1, "--jobs", 1, "--json")
    assert command.code == 0, command.err


def test_each_namespace_has_a_column_and_together_they_are_all_but_pulsars_own(
    tmp_path: Path,
) -> None:
    _, target = traced(tmp_path, RISING, "--per", "namespace")
    names, (clicks, orders) = figures(target)
    assert names == ["shop/clicks", "shop/orders"]
    assert clicks == pytest.approx([4] * 5)
    assert orders == pytest.approx([2 + minute for minute in range(5)], rel=0.02)
    _, target = traced(tmp_path, RISING, "--force")
    names, (everything,) = figures(target)
    assert names == ["all"]
    assert everything == pytest.approx(np.array(clicks) + np.array(orders) + 0.5, rel=1e-4)


@pytest.mark.heavy
def test_the_same_recording_gives_the_same_bytes_from_either_form(tmp_path: Path) -> None:
    source = ROOT / "tests/data/recordings/modular-broker-joins.jsonl.gz"
    columnar = tmp_path / "log.parquet"
    assert rebalancer("convert", source, columnar).code == 0
    first, second = (
        rebalancer("trace", path, tmp_path / f"{path.suffix}.csv", "--json").json
        for path in (source, columnar)
    )
    assert (tmp_path / ".gz.csv").read_bytes() == (tmp_path / ".parquet.csv").read_bytes()
    assert first["loads"] == second["loads"]
    assert first["kind"] == "trace"


@pytest.mark.parametrize("place", [0, 1, 8, 12])
@pytest.mark.parametrize("wrong_by_s", [-100_000, 100_000, 8 * 10**12])
def test_one_clock_that_is_far_off_makes_no_years_of_silence(
    tmp_path: Path, place: int, wrong_by_s: int
) -> None:
    steady = passes(*[{A: {ORDERS: 3.0}, B: {CLICKS: 4.0}}] * 6)
    wrong = load_report(A, wrong_by_s, {ORDERS: 99.0})
    answer, target = traced(tmp_path, [*steady[:place], wrong, *steady[place:]], "--json")
    known = figures(target)[1][0]
    # Nobody knows which is right of the first two that differ.
    assert known[place == 1 :] == pytest.approx([7] * (4 if place == 1 else 5))
    assert answer.json["strayed"] == int(place > 1)


@pytest.mark.parametrize("wrong_by_s", [-9 * 10**8, 9 * 10**8])
def test_a_time_that_really_moved_begins_the_trace_anew(tmp_path: Path, wrong_by_s: int) -> None:
    before = [load_report(A, wrong_by_s + 60 * minute, {ORDERS: 99.0}) for minute in range(4)]
    answer, target = traced(tmp_path, [*before, *passes(*[{A: {ORDERS: 3.0}}] * 30)])
    assert "are ignored: their time differs by more than a day" in answer.err
    (known,) = figures(target)[1]
    assert len(known) >= 10
    assert known == pytest.approx([3] * len(known))


def test_the_part_of_a_scenario_can_be_read_whatever_the_file_is_called(tmp_path: Path) -> None:
    target = tmp_path / 'lo\U0001f600 "a\\d\x7f.csv'
    answer = rebalancer("trace", recording(tmp_path, RISING), target, "--interval", 1.23456789)
    wave = tomllib.loads(answer.out)["traffic"][0]["wave"]
    assert (wave["file"], wave["interval_s"]) == (target.name, 1.235)
    assert target.read_text("utf-8").splitlines()[2].startswith("1.235,"), (
        "whole milliseconds, as records have them"
    )


def test_an_interval_holds_the_mean_over_its_time(tmp_path: Path) -> None:
    _, target = traced(tmp_path, RISING, "--interval", 120)
    _, (everything,) = figures(target)
    assert everything == pytest.approx([7, 9], rel=0.01)


def test_a_move_and_a_dead_broker_count_nothing_twice(tmp_path: Path) -> None:
    before = {A: {ORDERS: 3.0}, B: {CLICKS: 4.0}}
    dead = {B: {CLICKS: 4.0, ORDERS: 3.0}}
    moved = {A: dict[str, float](), **dead}
    answer, target = traced(tmp_path, passes(before, before, moved, moved, dead, dead), "--json")
    assert figures(target)[1][0] == pytest.approx([7] * 5, rel=0.02)
    assert answer.json["loads"][0]["bundles"] == 2
    silent = [one for one in passes(before, before, dead, dead) if b'"kind":"sweep"' not in one]
    _, target = traced(tmp_path, silent, "--force")
    assert figures(target)[1][0] == pytest.approx([7] * 2, rel=0.02), (
        "nobody said that it is gone, but another has its bundles"
    )


def test_a_real_broker_that_was_killed_leaves_the_load_as_it_was(tmp_path: Path) -> None:
    source = ROOT / "tests/data/recordings/modular-broker-killed.jsonl.gz"
    assert rebalancer("trace", source, tmp_path / "load.csv").code == 0
    _, (everything,) = figures(tmp_path / "load.csv")
    # Consumers and producers catch up while they are taken over.
    assert everything[1:] == pytest.approx([everything[-1]] * (len(everything) - 1), rel=0.15)


def test_brokers_of_the_extensible_load_manager_have_all_figures_but_name_few_bundles(
    tmp_path: Path,
) -> None:
    lines = [
        record
        for at in (0, 60, 120, 180)
        for record in (broker_load(A, at), top_bundles(A, at, {ORDERS: 30.0}), broker_load(B, at))
    ]
    gone = line("broker-load-data", 180, broker=B, report=None)
    lines += [gone, broker_load(A, 240), broker_load(A, 300)]
    _, target = traced(tmp_path, lines)
    messages = np.array(figures(target)[1][0]) * MIB_A_SECOND
    assert messages == pytest.approx([300, 300, 150, 150], rel=1e-5)
    answer, target = traced(tmp_path, lines, "--force", "--per", "namespace")
    assert "reports of bundles contain only 13 % of the traffic" in answer.words
    assert figures(target)[0] == ["shop/orders"]


def test_a_broker_that_falls_silent_counts_until_it_is_stale(tmp_path: Path) -> None:
    lines = [load_report(A, seconds, {ORDERS: MIB_A_SECOND}) for seconds in (0, 60, 600)]
    answer, target = traced(tmp_path, lines)
    assert "no broker reported for a part of 6 intervals" in answer.words
    assert figures(target)[1][0] == [1, 1, 1, 0, 0, 0, 0, 0, 0]


def two_clusters() -> list[bytes]:
    return [load_report(A, at, cluster=name) for at in (0, 60, 120) for name in ("east", "west")]


def test_what_json_says_is_what_the_scenario_part_says(tmp_path: Path) -> None:
    answer, _ = traced(tmp_path, RISING, "--per", "namespace", "--json")
    assert [(one["name"], one["bundles"], one["topics"]) for one in answer.json["loads"]] == [
        ("shop/clicks", 1, 3),
        ("shop/orders", 1, 3),
    ]
    assert json.loads(answer.out)["interval_s"] == 60
    part, _ = traced(tmp_path, RISING, "--per", "namespace", "--force")
    for one in answer.json["loads"]:
        assert f"mib_in = {one['mib_in']:.6g}" in part.out
        assert one["message_bytes"] == pytest.approx(1024)
        assert one["fan_out"] == pytest.approx(1)

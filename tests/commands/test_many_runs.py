"""Commands that make many runs, or pages with pictures: seconds each, so they are not among the
fast tests.
"""

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.requested_runs import make_all, run_requests
from tests.lab.test_columnar_fold import an_hour, recorded
from tests.lab.test_simulate_command import SMALL
from tests.unit.command_line import rebalancer

pytestmark = pytest.mark.lab


def test_backtest_compares_strategies_and_says_which_loop_it_is(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 4 * 40))
    strategies = ("--strategy", "avg", "--strategy", "threshold")
    answer = rebalancer("backtest", path, *strategies, "--html", tmp_path / "report.html")
    assert answer.code == 0, answer.err
    assert "closed loop: the recorded load of every bundle" in answer.words
    assert "avg" in answer.out
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    variant = ("--variant", "shedding.steady.rest_minutes=30")
    answer = rebalancer("backtest", path, "--loop", "open", "--json", *variant)
    assert [one["title"] for one in answer.json["runs"]] == ["steady", "steady, rest_minutes=30"]
    assert "do not react" in answer.json["meaning"]


def test_tune_says_whether_to_keep_the_settings(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 4 * 30))
    trials = ("--strategy", "overload", "--trials", "1")
    answer = rebalancer("tune", path, *trials, "--json", "--html", tmp_path / "report.html")
    assert answer.code == 0, answer.err
    assert answer.json["tried"] == 1
    assert answer.json["current"]["test"]["rounds"] > 0
    assert "settings" in answer.json["text"]
    assert (tmp_path / "report.html").exists()


def test_the_same_seed_gives_the_same_figures_in_any_number_of_processes(tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    small.write_text(SMALL, "utf-8")
    requests = run_requests([str(small)], ["avg/fixed", "threshold/parity"], [3, 4])
    alone = make_all(requests, 1, lambda: None, keep=lambda request: True)
    spread = make_all(requests, 2, lambda: None, keep=lambda request: True)
    for one, other in zip(alone, spread, strict=True):
        assert repr(one.figures) == repr(other.figures)
        assert one.timeline is not None
        assert other.timeline is not None
        assert one.timeline.usage.tobytes() == other.timeline.usage.tobytes()
        assert repr(one.timeline.moves) == repr(other.timeline.moves)
    assert alone[0].figures["start_spread"] != alone[1].figures["start_spread"]


def test_pulsars_shedders_come_in_the_order_of_their_published_ratings(tmp_path: Path) -> None:
    shown = "e2-uniform-jitter e4-threshold-over-unloading e7-avg-equal strong-broker-full"
    words, page = "--strategy all --mode parity --seeds 3 --json", tmp_path / "all.html"
    answer = rebalancer("simulate", *shown.split(), *words.split(), "--html", page)
    assert answer.code == 0, answer.err
    ratings = answer.json["ratings"]
    assert len(ratings["strategies"]) == 6
    assert ratings["order_as_published"] == dict.fromkeys(
        ("stability", "over-placement", "over-unloading", "heterogeneity"), True
    )
    assert len(answer.json["runs"]) == 4 * 6 * 3
    written = page.read_text("utf-8")
    assert "6 strategies in 4 scenarios" in written
    assert "All scenarios and strategies" in written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.html"]


def test_the_same_seed_gives_the_same_bytes_whatever_order_sets_have_in_a_process() -> None:
    words = ["simulate", "e3-threshold-equal", "--seeds", "1", "--first-seed", "2", "--json"]
    command = [sys.executable, "-m", "pulsar_rebalancer.cli.main", *words]
    answers = {
        subprocess.check_output(
            command, env={**os.environ, "PYTHONHASHSEED": str(order)}, timeout=300
        )
        for order in range(4)
    }
    assert len(answers) == 1

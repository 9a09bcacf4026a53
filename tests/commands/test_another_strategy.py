"""A contributor adds a strategy to a copy of the project, as docs/CONTRIBUTING.md says: a folder
and one line of the registry, and every command runs it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.command_line import ROOT

pytestmark = pytest.mark.lab

PACKAGES = ("strategies", "sinks", "streaming", "pulsar_rebalancer")
RECORDING = ROOT / "tests/data/recordings/modular-broker-killed.jsonl.gz"
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a command of the copy and gives what it prints as JSON."""
    copy = tmp_path_factory.mktemp("project")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package)
    folder = copy / "strategies/shedding/halving"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        '"""Every second bundle of the fullest broker goes to the emptiest."""\n'
    )
    shutil.copy(ROOT / "tests/made_up_strategy.py", folder / "registry_entry.py")
    registry = copy / "strategies/shedding/registry.py"
    before, line, after = registry.read_text().partition('    "transfer",\n')
    registry.write_text(f'{before}{line}    "halving",\n{after}')

    def command(*arguments: str) -> Any:
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        asked = [sys.executable, "-m", "pulsar_rebalancer", *arguments, "--json"]
        done = subprocess.run(
            asked, check=False, cwd=copy, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return command


def test_config_shows_its_settings(run: Run) -> None:
    shown = {
        one["path"]: one["value"]
        for one in run("config", "show", "--set", "shedding.strategy=halving")["settings"]
    }
    assert shown["shedding.strategy"] == "halving"
    assert shown["shedding.halving.gap_percent"] == 10


def test_replay_and_its_report_use_it(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    made = run("replay", str(RECORDING), "--set", "shedding.strategy=halving", "--html", str(page))
    assert sum(cluster["commands"] for cluster in made["clusters"]) > 0
    assert "shedding.halving.gap_percent" in page.read_text()


def test_backtest_and_tune_try_it(run: Run) -> None:
    (tested,) = run("backtest", str(RECORDING), "--strategy", "halving")["runs"]
    assert tested["strategy"] == "halving"
    assert tested["clusters"][0]["moves"]
    assert (
        run("tune", str(RECORDING), "--strategy", "halving", "--trials", "2")["strategy"]
        == "halving"
    )


def test_simulate_runs_it_beside_the_others(run: Run) -> None:
    made = run(
        "simulate",
        "e7-avg-equal",
        "--strategy",
        "all",
        "--minutes",
        "8",
        "--seeds",
        "1",
        "--jobs",
        "1",
    )
    labels = json.dumps(made)
    assert "halving/parity+round_robin" in labels
    assert "avg/parity+avg" in labels

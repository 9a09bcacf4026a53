"""A strategy that is one entry of the registry works wherever a strategy is named, shown or
tried.
"""

import ast
import pickle
import re
from itertools import islice
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.backtest.run import BacktestJob, Loop
from pulsar_rebalancer.settings.check_values import json_schema
from pulsar_rebalancer.settings.merge_sources import Settings, load
from pulsar_rebalancer.settings.setting_paths import all_leaves
from strategies.errors import SettingsError
from strategies.fold.engine import Engine
from strategies.shedding.registry import SHEDDERS
from tests.architecture.command_line import ROOT
from tests.architecture.layers import modules, parsed
from tests.lab.test_columnar_fold import an_hour, recorded
from tests.made_up_strategy import ENTRY, HalvingSettings, HalvingShedder
from tests.world.backtests import run

#: The one line that a contributor adds, as a value.
WITH_HALVING = SHEDDERS.extended(ENTRY)


def chosen(*flags: str) -> Settings:
    return load(flags=["shedding.strategy=halving", *flags], shedders=WITH_HALVING)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], Path]:
    """Forty minutes of four brokers, one of which is too full for a while: JSON Lines and the
    columnar form.
    """
    return recorded(tmp_path_factory.mktemp("recording"), islice(an_hour(), 5 * 40))


def test_a_contributor_needs_what_the_page_names_and_few_statements() -> None:
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## To add a strategy\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(?:\w+\.)?(\w+)=?`", section)
    code = "".join(file.read_text("utf-8") for file in modules(ROOT / "strategies"))
    targets = re.findall(r"`make (\w+)`", page)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    made_up = ast.walk(parsed(ROOT / "tests" / "made_up_strategy.py"))

    unknown = {word for word in named if not re.search(rf"\b{word}\b", code)}
    assert unknown <= {"backtest", "run", "simulate"}
    assert {"golden", "check"} <= {*targets}
    assert [one for one in targets if f"\n{one}:" not in makefile] == []
    assert sum(isinstance(node, ast.stmt) for node in made_up) <= 60


def test_its_settings_are_shown_checked_and_described_like_all_others() -> None:
    assert chosen("shedding.halving.gap_percent=15").value("shedding.halving.gap_percent") == 15
    said = r"shedding\.halving\.gap_percent: must be at most 100 points, got 101"
    with pytest.raises(SettingsError, match=said):
        chosen("shedding.halving.gap_percent=101")
    schema = str(json_schema(all_leaves(WITH_HALVING)))
    assert "gap_percent" in schema
    assert "'halving'" in schema


def test_without_the_entry_there_is_no_such_strategy() -> None:
    said = r"shedding\.strategy: must be one of .*got \"halving\""
    with pytest.raises(SettingsError, match=said):
        load(flags=["shedding.strategy=halving"])
    assert "halving" not in SHEDDERS


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_a_backtest_runs_it(recording: tuple[list[bytes], Path], loop: Loop) -> None:
    (line,) = run(BacktestJob(recording[1], "halving", chosen(), loop)).timelines
    assert line.strategy == "halving/fixed"
    assert {move.code for move in line.moves} == {"halved"}
    assert not line.reached.all()


def test_another_process_gets_it_with_the_settings() -> None:
    sent = pickle.loads(pickle.dumps(chosen().engine))
    assert sent.chosen == HalvingSettings()
    assert isinstance(sent.shedder(), HalvingShedder)
    assert Engine(sent) is not None

"""docs/CHOOSING.md: what it says about a small cluster is what the commands beside it print, and
its settings are settings.
"""

import re
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.merge_sources import load
from strategies.shedding.registry import DEFAULT
from tests.unit.command_line import rebalancer

pytestmark = pytest.mark.lab

PAGE = (Path(__file__).parents[2] / "docs/CHOOSING.md").read_text("utf-8")
SCENARIO, *SETTINGS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
ROWS = re.findall(r"^\| `(--strategy [^`]+)` \| (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("words", "bundles", "spread"), ROWS)
def test_a_small_cluster_does_what_the_page_says(
    tmp_path: Path, words: str, bundles: str, spread: str
) -> None:
    (tmp_path / "small.toml").write_text(SCENARIO, "utf-8")

    done = rebalancer("simulate", tmp_path / "small.toml", "--seeds", "3", *words.split())

    row, _ = [line for line in done.out.splitlines() if "/fixed+" in line]  # two tables
    figures = re.sub(r"\([^)]*\)", "", row).split()
    assert (figures[3], figures[5]) == (bundles, spread)


def test_the_default_strategy_moves_where_the_defaults_of_avg_move_nothing() -> None:
    assert len(ROWS) == 6
    assert ROWS[0][0] == f"--strategy {DEFAULT}/fixed"
    assert int(ROWS[0][1]) > 0
    assert ROWS[1][:2] == ("--strategy avg/fixed", "0")


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_settings_of_the_page_are_settings(tmp_path: Path, settings: str) -> None:
    (tmp_path / "settings.toml").write_text(settings, "utf-8")
    load(tmp_path / "settings.toml")

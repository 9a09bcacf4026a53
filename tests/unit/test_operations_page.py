"""The commands that docs/OPERATIONS.md shows exist and know their options, and its settings are settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli import exits
from cli.settings.load import load
from tests.architecture.command_line import unknown_options
from tests.architecture.readme import shown_commands

PAGE = (Path(__file__).parents[2] / "docs/OPERATIONS.md").read_text("utf-8")
COMMANDS = [part for shown in shown_commands(PAGE) for part in shown.command.split(" | ") if part.startswith("rebalancer ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_knows_its_options(command: str) -> None:
    words = tuple(shlex.split(command))

    assert unknown_options(words, positions=3 if words[1] in ("config", "topics", "jars") else 2) == []


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    trial, *others = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for shown in (*others, trial):
        file.write_text(shown, "utf-8")
        load(file)

    assert load(file).job.checkpoint == "/tmp/trial/checkpoint"


def test_the_exit_codes_of_the_page_are_those_of_the_program() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}

    assert told == {exits.OK, exits.ERROR, exits.SETTINGS, exits.IMBALANCED, exits.DIFFERENT, exits.INTERRUPTED}

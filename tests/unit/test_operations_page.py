"""The commands that docs/OPERATIONS.md shows exist and know their options, and its settings are settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rebalancer.cli import exits
from rebalancer.cli.lazy import COMMANDS as COMMAND_NAMES
from rebalancer.settings.load import load
from tests.architecture.command_line import unknown_options
from tests.architecture.readme import shown_commands
from tests.unit.command_line import rebalancer

PAGE = (Path(__file__).parents[2] / "docs/OPERATIONS.md").read_text("utf-8")
ROOT = Path(__file__).parents[2]
COMMANDS_THERE_ARE = [name for name in COMMAND_NAMES if name not in ("config", "topics", "jars")]
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


def test_the_exit_codes_of_the_page_and_of_the_help_are_those_of_the_program() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper()}
    help_text = rebalancer("--help").words.partition("Exit codes: ")[2].partition(".")[0]

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == codes
    assert {int(code) for code in re.findall(r"\b(\d+) [a-z]", help_text)} == codes


@pytest.mark.parametrize("command", COMMANDS_THERE_ARE)
def test_the_help_of_a_command_names_exit_codes_that_exist(command: str) -> None:
    told = re.findall(r"[Ee]xit code (\d+)|, (\d+) (?:after|when)|; (\d+):", rebalancer(command, "--help").words)

    assert {int(code) for found in told for code in found if code} <= {value for name, value in vars(exits).items() if name.isupper()}


def test_an_exit_code_that_nothing_uses_is_gone() -> None:
    names = {name for name in vars(exits) if name.isupper()} - {"OK"}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "rebalancer/cli").rglob("*.py"))

    assert {name for name in names if f"exits.{name}" not in code} == set()


#: How the page names the default of a setting; the first group is what it says.
CLAIMS = {
    "shedding.avg.high_threshold": r"urgent; the default is (\d+)",
    "shedding.avg.hit_count_high": r"in a row; the default is (\d+)",
    "shedding.avg.min_msg_rate": r"was small, the default is (\d+)",
    "shedding.avg.min_throughput": r"bytes/s; the default is (1 MiB)/s",
    "job.shuffle_partitions": r"With (\d+), the default, one task",
    "job.trigger_ms": r"`job\.trigger_ms` \|[^`]*?\| (\d+) ms, the default \|",
    "kafka.outage_ms": r"After `kafka\.outage_ms` without an answer \((10 minutes)\)",
}


@pytest.mark.parametrize(("path", "claim"), CLAIMS.items())
def test_a_default_that_the_page_names_is_that_of_the_setting(path: str, claim: str) -> None:
    (told,) = re.findall(claim, PAGE, re.DOTALL)
    number, _, unit = told.partition(" ")

    assert load().value(path) == int(number) * {"": 1, "MiB": 2**20, "minutes": 60_000}[unit]


def test_every_figure_that_the_page_calls_a_default_is_compared() -> None:
    """A line about something else is named here."""
    others = (
        "bandwidth weights",
        "defaults:",
        "differs from the defaults",
        "spark-defaults",
        "A topic that is deleted",
        "the pause file",
        "Kafka's default",
    )
    lines = [line for line in PAGE.splitlines() if re.search(r"default", line) and re.search(r"\d", line)]
    left = [line for line in lines if not any(one in line for one in others)]

    assert sum(bool(re.search(claim, PAGE, re.DOTALL)) for claim in CLAIMS.values()) == len(CLAIMS)
    assert len(left) == len([claim for claim in CLAIMS.values() if "default" in claim])

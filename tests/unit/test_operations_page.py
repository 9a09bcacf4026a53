"""The commands that docs/OPERATIONS.md and its four pages show exist and know their options, and
their settings are settings.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.lazy import COMMANDS as COMMAND_NAMES
from pulsar_rebalancer.settings.load import load
from strategies.cluster.budget import HOUR_MS
from strategies.fold.warm_start import warm_window_ms
from tests.architecture.command_line import unknown_options
from tests.architecture.readme import shown_commands
from tests.unit.command_line import rebalancer

ROOT = Path(__file__).parents[2]
PAGES = ("OPERATIONS", "DEPLOYMENT", "TOPICS", "PULSAR_CLUSTER", "TROUBLESHOOTING")
#: All five pages; the trial of OPERATIONS.md is the first settings file.
PAGE = "\n".join((ROOT / f"docs/{page}.md").read_text("utf-8") for page in PAGES)
COMMANDS_THERE_ARE = [name for name in COMMAND_NAMES if name not in ("config", "topics", "jars")]
COMMANDS = [
    part
    for shown in shown_commands(PAGE)
    for part in shown.command.split(" | ")
    if part.startswith("rebalancer ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_knows_its_options(command: str) -> None:
    words = tuple(shlex.split(command))

    assert (
        unknown_options(words, positions=3 if words[1] in ("config", "topics", "jars") else 2) == []
    )


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    trial, *others = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for shown in (*others, trial):
        file.write_text(shown, "utf-8")
        load(file)

    assert load(file).job.checkpoint == "/tmp/trial/checkpoint"


def test_the_exit_codes_of_the_page_and_of_the_help_are_those_of_the_program() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    help_text = rebalancer("--help").words.partition("Exit codes: ")[2].partition(".")[0]

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == codes
    assert {int(code) for code in re.findall(r"\b(\d+) [a-z]", help_text)} == codes


@pytest.mark.parametrize("command", COMMANDS_THERE_ARE)
def test_the_help_of_a_command_names_exit_codes_that_exist(command: str) -> None:
    told = re.findall(
        r"[Ee]xit code (\d+)|, (\d+) (?:after|when)|; (\d+):", rebalancer(command, "--help").words
    )

    assert {int(code) for found in told for code in found if code} <= {
        value for name, value in vars(exit_codes).items() if name.isupper()
    }


def test_an_exit_code_that_nothing_uses_is_gone() -> None:
    names = {name for name in vars(exit_codes) if name.isupper()} - {"OK"}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "pulsar_rebalancer").rglob("*.py"))

    assert {name for name in names if f"exit_codes.{name}" not in code} == set()


#: How the pages name the default of a setting; the first group is the value. A blank is any white
#: space: lines are wrapped.
CLAIMS = {
    "shedding.steady.rest_minutes": r"stays for this time; the default is (\d+)",
    "job.shuffle_partitions": r"With (\d+), the default, one task",
    "job.trigger_ms": r"`job\.trigger_ms` \|[^`]*?\| (\d+) ms, the default \|",
    "kafka.outage_ms": r"After `kafka\.outage_ms` without an answer \((10 minutes)\)",
}
#: Lines with a figure and the word default that name no setting's default.
OTHER_LINES = ("spark-defaults", "Kafka's default", "Pulsar's default")


@pytest.mark.parametrize(("path", "claim"), CLAIMS.items())
def test_a_default_that_the_pages_name_is_that_of_the_setting(path: str, claim: str) -> None:
    (found,) = places(claim)
    number, _, unit = found[1].partition(" ")

    assert load().value(path) == int(number) * {"": 1, "minutes": 60_000}[unit]


@pytest.mark.parametrize("strategy", ["threshold", "steady"])
def test_the_hours_of_a_warm_start_are_those_of_the_page(strategy: str) -> None:
    found = re.search(
        r"that\s+is\s+([\d.]+)\s+hours,\s+and\s+([\d.]+)\s+hours\s+for\s+SteadyShedder", PAGE
    )
    assert found is not None
    hours = warm_window_ms(load(flags=[f"shedding.strategy={strategy}"]).engine) / HOUR_MS
    assert f"{hours:.1f}" == found[1 if strategy == "threshold" else 2]


def test_every_figure_that_the_pages_call_a_default_is_compared() -> None:
    compared = [found.span() for claim in CLAIMS.values() for found in places(claim)]
    left = []
    for found in re.finditer(r"^.*default.*$", PAGE, re.MULTILINE):
        is_compared = any(start < found.end() and end > found.start() for start, end in compared)
        if (
            re.search(r"\d", found[0])
            and not is_compared
            and not any(one in found[0] for one in OTHER_LINES)
        ):
            left.append(found[0])

    assert left == []


def places(claim: str) -> list[re.Match[str]]:
    return list(re.finditer(claim.replace(" ", r"\s+"), PAGE, re.DOTALL))

"""What README.md tells people to type exists; tests/commands/test_readme.py runs it."""

import shlex

import pytest

from tests.architecture.command_line import ROOT, run, unknown_options
from tests.architecture.readme import Shown, shown_commands

SHOWN = list(shown_commands((ROOT / "README.md").read_text("utf-8")))
MARKS = ("run", "help")


def test_readme_shows_commands_and_every_fence_says_how_it_is_checked() -> None:
    assert SHOWN
    assert [
        f"README.md:{shown.line}: {shown.command}" for shown in SHOWN if not is_known(shown.mark)
    ] == []


@pytest.mark.parametrize(
    "shown", [it for it in SHOWN if it.mark == "help"], ids=lambda it: it.command
)
def test_a_command_and_its_options_exist(shown: Shown) -> None:
    parts = simple_commands(shown.command)
    assert parts
    for part in parts:
        assert missing(part) == []


def is_known(mark: str | None) -> bool:
    return mark is not None and (mark in MARKS or mark.removeprefix("exit ").isdecimal())


def simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a pipe or a list of commands; redirections are left in, they are
    no options.
    """
    words = shlex.split(line, comments=True)
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("|", "&&", ";"):
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def missing(words: list[str]) -> list[str]:
    """Options, targets or programs among `words` that do not exist."""
    program, *rest = words
    if program == "make":
        targets = [word for word in rest if "=" not in word]
        return [one for one in targets if run("make", "--dry-run", one).returncode]
    if program == "rebalancer":
        return unknown_options(tuple(words))
    return (
        [] if run("bash", "-c", f"command -v {shlex.quote(program)}").returncode == 0 else [program]
    )

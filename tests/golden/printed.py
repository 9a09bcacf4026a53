"""Commands with their exit codes and print-outs as text, which a golden file holds."""

import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import chdir
from pathlib import Path

from tests.unit.command_line import Answer, rebalancer

#: What differs from run to run, and what stands for it.
_CHANGING = (
    (re.compile(r"(decided by \S+) \d\S*"), r"\1 VERSION"),
    (re.compile(r"expired \d+ s ago"), "expired N s ago"),
    (re.compile(r'("version": )"\d[^"]*"'), r'\1"VERSION"'),
    (re.compile(r"\d+\.\d GiB free"), "N GiB free"),
    (re.compile(r"byte \d{3,}"), "byte N"),
)


def steady(text: str, folder: Path) -> str:
    """The text without what differs from run to run. `folder`: of the test."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, stands_for in _CHANGING:
        text = pattern.sub(stands_for, text)
    return text


def printed(title: object, answer: Answer, folder: Path) -> str:
    """A command's title, its outputs, and its exit code unless it is 0."""
    ended = f"exit code {answer.code}\n" if answer.code else ""
    return steady(f"$ {title}\n{answer.out}{answer.err}{ended}\n", folder)


def titled(story: Callable[..., object]) -> str:
    """The title of a story in a golden file."""
    return f"--- {story.__name__.replace('_', ' ')}\n\n"


def compare(file: Path, parts: Iterable[str], rewrite: bool) -> None:
    """Compares the parts with the file, which `make golden` rewrites."""
    text = "".join(parts)
    if rewrite:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8"), (
        f"{file.name} differs; `make golden` rewrites it, read the difference before you commit it"
    )


def compare_refusals(file: Path, folder: Path, rewrite: bool) -> None:
    """Runs the commands of the file in the folder; behind `>` it has the exit code of each, and
    what it says.
    """
    commands = [one for one in file.read_text("utf-8").splitlines() if not one.startswith("> ")]
    with chdir(folder):
        told = [_refusal(command).replace(f"{folder}/", "") for command in commands]
    lines = zip(commands, told, strict=True)
    compare(file, (f"{command}\n> {one}\n" for command, one in lines), rewrite)


def _refusal(command: str) -> str:
    answer = rebalancer(*shlex.split(command))
    assert answer.code in (1, 2), f"{command}: {answer}"
    assert answer.out == "", command
    text = re.sub(r"[╭╮╰╯─│]|\d{4}-\d\d-\d\dT[\d:.]+Z", " ", answer.err)
    return f"{answer.code} {' '.join(text.split())}"

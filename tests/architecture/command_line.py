"""Runs command lines as a shell does in which .venv is activated, and asks commands which options
they know.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.unit.command_line import rebalancer

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
ACTIVATED: Mapping[str, str] = {
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    "PYSPARK_PYTHON": sys.executable,
    "NO_COLOR": "1",
    "COLUMNS": "200",
}


def run(
    *words: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, without a terminal and without input. Standard error joins the
    output.
    """
    # A make that runs these tests must not steer the one that a test starts.
    outer = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "REBALANCER_"))
    }
    return subprocess.run(
        words,
        env={**outer, **ACTIVATED, **(environment or {})},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


@cache
def _listed(command: tuple[str, ...]) -> frozenset[str]:
    """The words of a command's help; pages show the same command many times. A process for each of
    ours would take a second.
    """
    if command[0] == "rebalancer":
        ours = rebalancer(*command[1:], "--help", env={"COLUMNS": "200"})
        code, told = ours.code, ours.out + ours.err
    else:
        answer = run(*command, "--help")
        code, told = answer.returncode, answer.stdout
    assert code == 0, told
    return frozenset(told.replace(",", " ").split())


def unknown_options(words: tuple[str, ...], positions: int | None = None) -> list[str]:
    """Options among `words` that the help of the command does not list; an AssertionError when the
    command does not exist.

    The first `positions` words name the command; without a number, all words before the first
    option (an argument there does no harm).
    """
    count = positions or next(
        (place for place, word in enumerate(words) if word.startswith("-")), len(words)
    )
    listed = _listed(words[:count])
    options = (word.partition("=")[0] for word in words[count:] if word.startswith("--"))
    return [option for option in options if option not in listed]

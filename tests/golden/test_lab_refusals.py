"""What commands of the laboratory refuse, in lab_refusals.txt: a command line, then its exit code
and what it says behind `>`. `make golden` rewrites the answers.
"""

from __future__ import annotations

import re
import shlex
from contextlib import chdir
from itertools import islice
from pathlib import Path

import pytest

from tests.golden.printed import compare
from tests.lab.test_cli_trace import ORDERS, RISING, A, passes, recording, two_clusters
from tests.lab.test_columnar_fold import an_hour, recorded
from tests.telemetry_lines import sweep
from tests.unit.command_line import rebalancer

_FILE = Path(__file__).with_name("lab_refusals.txt")


@pytest.mark.heavy
def test_refused_commands_say_what_the_file_says(rewrite: bool, tmp_path: Path) -> None:
    lines, _ = recorded(tmp_path, islice(an_hour(), 5))
    for name, content in {
        "short": lines[:4],
        "empty": [],
        "nonsense": [b"nonsense"],
        "nobody": [sweep(1, A)],
        "rising": RISING,
        "brief": RISING[:3],
        "idle": passes(*[{A: {ORDERS: 0.0}}] * 4),
        "two": two_clusters(),
    }.items():
        recording(tmp_path, content, f"{name}.jsonl")
    (tmp_path / "mine.csv").write_text("mine")
    here = f"{tmp_path}/"
    commands = [one for one in _FILE.read_text("utf-8").splitlines() if not one.startswith("> ")]
    with chdir(tmp_path):
        told = [_refusal(command).replace(here, "") for command in commands]
    printed = "".join(f"{command}\n> {one}\n" for command, one in zip(commands, told, strict=True))
    compare(_FILE, [printed], rewrite)


def _refusal(command: str) -> str:
    answer = rebalancer(*shlex.split(command))
    assert answer.code in (1, 2), f"{command}: {answer}"
    assert answer.out == "", command
    return f"{answer.code} {' '.join(re.sub('[╭╮╰╯─│]', ' ', answer.err).split())}"

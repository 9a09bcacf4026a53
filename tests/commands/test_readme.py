"""What README.md tells people to type works."""

import re
from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT, run
from tests.architecture.readme import Shown, shown_commands

pytestmark = pytest.mark.lab

SHOWN = [
    it
    for it in shown_commands((ROOT / "README.md").read_text("utf-8"))
    if it.mark not in (None, "help")
]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda it: it.command)
def test_a_command_does_what_readme_says(shown: Shown, tmp_path: Path) -> None:
    folder = lookalike(tmp_path)
    wanted = re.fullmatch(r"exit (\d+)", shown.mark or "")

    answer = run("bash", "-o", "pipefail", "-c", shown.command, folder=folder)

    assert answer.returncode == (int(wanted[1]) if wanted else 0), answer.stdout


def lookalike(folder: Path) -> Path:
    """A folder with links to everything in the project, so that what a command writes lands in the
    test's own folder.
    """
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "out", "build", "dist"):
            (folder / entry.name).symlink_to(entry)
    return folder

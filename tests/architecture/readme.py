"""Reads the commands of a Markdown page: those in console fences, each with a mark above it that
says how it is checked.

<!-- checked: run -->      run as it stands, in a folder that looks like the project's; exit code 0
<!-- checked: exit 2 -->   the same with another exit code
<!-- checked: help -->     too long or too much for a test: the command exists and knows the options
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(
    r"(?:<!-- checked: (?P<mark>[a-z0-9 ]+) -->\n+)?```console\n(?P<body>.*?)```", re.DOTALL
)
PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Shown:
    """One command a page shows; `mark` is None when nothing says how to check it."""

    line: int
    command: str
    mark: str | None


def shown_commands(page: str) -> Iterator[Shown]:
    """All commands of a page, with backslash-continued lines joined."""
    for fence in FENCE.finditer(page):
        line = page.count("\n", 0, fence.start("body")) + 1
        for offset, command in commands(fence["body"]):
            yield Shown(line + offset, command, fence["mark"])


def commands(body: str) -> Iterator[tuple[int, str]]:
    """Offset and text of every line that starts with a prompt; what follows without one is what the
    command prints.
    """
    joined = re.sub(r"\\\n", lambda found: "\0", body)
    offset = 0
    for line in joined.splitlines():
        if line.startswith(PROMPT):
            yield offset, line.removeprefix(PROMPT).replace("\0", " ")
        offset += 1 + line.count("\0")

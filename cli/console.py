"""Data to standard output (tables or one JSON document), progress to standard error; colour only on a terminal that wants it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

Side = Literal["left", "right"]


def out() -> Console:
    """Standard output for people. Off a terminal it is 120 columns wide unless COLUMNS says otherwise."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120
    return Console(file=sys.stdout, width=width, highlight=False, emoji=False, markup=False, soft_wrap=False)


def progress(sentence: str) -> None:
    """One plain line on standard error."""
    print(sentence, file=sys.stderr, flush=True)


def show(*parts: RenderableType) -> None:
    """Tables and sentences on standard output, without the blanks that fill a table's lines up to the edge."""
    console = out()
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_json(kind: str, version: int, body: Mapping[str, Any]) -> None:
    """One JSON document on standard output; `kind` and `v` name the form of the rest."""
    plain = sys.stdout.encoding.lower() not in ("utf-8", "utf8")
    print(json.dumps({"kind": kind, "v": version, **body}, ensure_ascii=plain, indent=2, allow_nan=False))


def table(columns: Sequence[tuple[str, Side]], rows: Sequence[Sequence[str | Text]], title: str | None = None) -> Table:
    """A plain table; cells are taken literally, no markup. Columns on the right hold figures and never wrap."""
    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for heading, side in columns:
        made.add_column(heading, justify=side, overflow="fold", no_wrap=side == "right")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made

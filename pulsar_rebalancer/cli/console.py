"""Prints data to standard output (tables or one JSON document) and progress to standard error;
colour only on terminals.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from sinks.printable import printable, put
from strategies.ordered_sum import ordered_sum

Side = Literal["left", "right"]
#: Gap between two columns, and the longest word that is kept whole in a narrow terminal.
_GAP, _LONGEST_WORD = 3, 24


def out() -> Console:
    """The console of standard output. Off a terminal it is 120 columns wide unless COLUMNS is
    set.
    """
    return Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120,
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=False,
    )


def say(*lines: str) -> None:
    """Prints lines to standard output."""
    for line in lines:
        put(line)


def progress(sentence: str) -> None:
    """Prints one line to standard error."""
    put(sentence, sys.stderr)


def warn(sentences: Iterable[str]) -> None:
    """Prints one warning per line to standard error."""
    for sentence in sentences:
        progress(f"warning: {sentence}")


def show(*parts: RenderableType) -> None:
    """Prints tables and sentences to standard output, without trailing blanks."""
    console = out()
    with console.capture() as captured:
        for part in parts:
            console.print(printable(part) if isinstance(part, str) else part)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_json(kind: str, version: int, body: Mapping[str, Any]) -> None:
    """Prints one JSON document to standard output. `kind` and `v`: kind and version of its
    schema.
    """
    say_json({"kind": kind, "v": version, **body})


def answer(kind: str, body: Mapping[str, Any], *lines: str, as_json: bool) -> None:
    """Prints the result of a command as lines of text, or as one JSON document."""
    if as_json:
        print_json(kind, 1, body)
    else:
        say(*lines)


def say_json(tree: Mapping[str, Any]) -> None:
    """Prints an object to standard output, indented."""
    text = json.dumps(
        tree,
        ensure_ascii=sys.stdout.encoding.lower() not in ("utf-8", "utf8"),
        indent=2,
        allow_nan=False,
    )
    say(*text.split("\n"))


#: Text, which may be from records; text of ours with styles; or several lines.
Cell = str | Text | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A plain table; cells are literal text, without markup. Right-aligned columns contain figures
    and are never cut.

    Columns that do not fit beside the first one continue below.
    """

    columns: Sequence[tuple[str, Side]]
    rows: Sequence[Sequence[Cell]]
    title: str | None = None

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        title = None if self.title is None else printable(self.title)
        for number, places in enumerate(self._parts(options.max_width)):
            yield self._part(places, title if number == 0 else None)

    def _parts(self, width: int) -> list[list[int]]:
        """Columns of each table part; every part begins with the first column."""
        widths = [self._least(place) + _GAP for place in range(len(self.columns))]
        parts: list[list[int]] = [[0]]
        for place in range(1, len(widths)):
            if (
                len(parts[-1]) > 1
                and ordered_sum(widths[other] for other in [*parts[-1], place]) - _GAP > width
            ):
                parts.append([0])
            parts[-1].append(place)
        return parts

    def _least(self, place: int) -> int:
        heading, side = self.columns[place]
        cells = [heading, *(str(_shown(row[place])) for row in self.rows)]
        if side == "right":
            return max(map(len, cells))
        return min(max(len(word) for cell in cells for word in (*cell.split(), "")), _LONGEST_WORD)

    def _part(self, places: Sequence[int], title: str | None) -> Table:
        made = Table(
            box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False
        )
        for place in places:
            heading, side = self.columns[place]
            made.add_column(
                printable(heading), justify=side, overflow="fold", no_wrap=side == "right"
            )
        for row in self.rows:
            made.add_row(*(_shown(row[place]) for place in places))
        return made


def _shown(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    lines = (cell,) if isinstance(cell, str) else cell
    return Text("\n".join(map(printable, lines)))

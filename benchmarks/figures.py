"""Figures of a benchmark: a median with the range it comes from, rows that print as a table or as
JSON, and what is said meanwhile.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """Median, smallest and largest of repeated measurements, in the unit that its row names."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.low)}–{_short(self.high)})"

    def over(self, reference: "Sample") -> str:
        """How many times the reference: `2.1×`."""
        return (
            f"{self.median / reference.median:.2g}×"
            if self.median < 10 * reference.median
            else f"{self.median / reference.median:.0f}×"
        )


def folder_bytes(folder: Path) -> int:
    """Size of all files below a folder, from which files may vanish meanwhile."""
    return sum(_bytes(Path(parent, name)) for parent, _, names in os.walk(folder) for name in names)


def _bytes(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def sample(values: Sequence[float]) -> Sample:
    """Of one or more measurements."""
    return Sample(median(values), min(values), max(values))


def table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Rows under the names of their columns; figures stand right, the first two columns left."""
    if not rows:
        return ""
    columns = list(rows[0])
    texts = [columns, *([str(row[column]) for column in columns] for row in rows)]
    widths = [max(len(text[index]) for text in texts) for index in range(len(columns))]
    lines = ["  ".join(_aligned(text, widths)).rstrip() for text in texts]
    return "\n".join([title, *(f"  {line}" for line in lines)])


def say(text: str) -> None:
    """Progress with the time of day, to standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _aligned(texts: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for index, (text, width) in enumerate(zip(texts, widths, strict=True)):
        yield text.ljust(width) if index < 2 else text.rjust(width)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"

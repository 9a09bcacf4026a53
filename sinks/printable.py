"""Text of records as text on one line, and the one way of text to a terminal or a text log."""

import sys
from typing import IO


def put(line: str, file: IO[str] | None = None) -> None:
    """Prints one line, by default to standard output: whatever a record contains, it stays one line
    without escape sequences. JSON stays the same JSON. A line to a named file is flushed.
    """
    print(printable(line), file=file or sys.stdout, flush=file is not None)


def printable(line: str) -> str:
    """One line of text that may be from a record: line breaks, control characters and characters
    that change the direction of the text are escaped, as in JSON.
    """
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else _escaped(c) for c in line)


def _escaped(character: str) -> str:
    """`\\u000a`; beyond 16 bits two of these, so that a JSON text stays one."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

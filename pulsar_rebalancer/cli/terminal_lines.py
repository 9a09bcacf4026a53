"""The one way of text to a terminal or a text log."""

import sys
from typing import IO

from sinks.printable import printable


def put(line: str, file: IO[str] | None = None) -> None:
    """Prints one line, by default to standard output: whatever a record contains, it stays one line
    without escape sequences. JSON stays the same JSON. A line to a named file is flushed.
    """
    print(printable(line), file=file or sys.stdout, flush=file is not None)

"""Writes the traceback of an error that a rule raised to the log of Spark's workers, for who
corrects the rule. Users get the sentence on the records (decision 0253).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from traceback import format_exception

from sinks.printable import printable

#: Causes that a process remembers; then it begins again, so that its memory is bounded.
_MOST = 1_000


class RaisedLog:
    """Writes each cause once per process. A cause is the sentence: type, line and text of the
    error.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._written: dict[str, None] = {}

    def __call__(self, text: str, error: Exception) -> None:
        if text in self._written:
            return
        if len(self._written) == _MOST:
            self._written.clear()
        self._written[text] = None
        self._write(f"a rule raised: {text}\n{''.join(format_exception(error))}")


def _print(text: str) -> None:
    """A traceback has many lines, which may quote records."""
    print(*map(printable, text.split("\n")), sep="\n", file=sys.stderr, flush=True)


_OF_PROCESS = RaisedLog(_print)


def log_once(text: str, error: Exception) -> None:
    """Writes a traceback to standard error, which Spark's workers share with `spark.log`."""
    _OF_PROCESS(text, error)

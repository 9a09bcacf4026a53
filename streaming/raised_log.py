"""Writes the traceback of an error that a rule raised to the log of Spark's workers, for who
corrects the rule. Users get the sentence on the records (decision 0253).
"""

from __future__ import annotations

import sys
from traceback import format_exception

from sinks.printable import printable

#: Causes that a process remembers; then it begins again, so that its memory is bounded.
_MOST = 1_000
_WRITTEN: set[str] = set()


def log_once(text: str, error: Exception) -> None:
    """Writes a traceback to standard error, which Spark's workers share with `spark.log`: each
    cause once per process. `text`: the cause, with type, line and text of the error.
    """
    if text in _WRITTEN:
        return
    if len(_WRITTEN) == _MOST:
        _WRITTEN.clear()
    _WRITTEN.add(text)
    # A traceback has many lines, which may quote records.
    said = f"a rule raised: {text}\n{''.join(format_exception(error))}"
    for line in said.split("\n"):
        print(printable(line), file=sys.stderr)
    sys.stderr.flush()

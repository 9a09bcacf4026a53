"""Looks after the Python processes of Spark's workers: their log, their memory, and their
connection to Java.
"""

import gc
import sys
from traceback import format_exception
from typing import Any

from sinks.printable import printable

#: Causes that a process remembers; then it begins again, so that its memory is bounded.
_MOST = 1_000
_WRITTEN: set[str] = set()
#: Micro-batches after which everything is searched once: cycles of Spark's own objects that were
#: frozen while in use are freed then.
_SEARCHED_EVERY = 128
#: The connection of this process's last task. The next task drops it; Java has closed its end then.
_LAST: list[Any] = []


def log_once(text: str, error: Exception) -> None:
    """Writes a traceback to standard error, which Spark's workers share with `spark.log`: each
    cause once per process. It is for who corrects the rule; users get the sentence on the records
    (decision 0253). `text`: the cause, with type, line and text of the error.
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


class Freezer:
    """Keeps Python's search for cycles away from the state that stays from one micro-batch to the
    next.

    The state of 1,000 clusters is millions of objects. Python searches all of them whenever enough
    new ones have come together, which is once or twice in a micro-batch, and finds nothing: a fold
    makes no cycles. Objects that are frozen are not searched, and are freed like others when
    nothing refers to them.
    """

    def __init__(self) -> None:
        self._batches = 0

    def after_batch(self) -> None:
        """Freezes all objects of this process."""
        if self._batches % _SEARCHED_EVERY == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        self._batches += 1


def leave_open(handle: Any) -> None:
    """Keeps the connection of a task that has finished, and sends Java no word of it. `handle`: of
    the stateful processor.

    Java leaves its end open when Python ends the connection, or says that it has finished: one open
    file for every task (SPARK-58932; Spark 4.2.0). It closes its end only if the task ends first.
    """
    client = getattr(handle, "_statefulProcessorApiClient", None)
    if client is not None:
        client.set_handle_state = lambda state: None
        _LAST[:] = [client]

"""Looks after the Python processes of Spark's workers: which ones a query has, their log, their
memory, and their connection to Java.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

from pyspark.sql import SparkSession

from sinks.printable import printable

#: Maximum number of causes that a process remembers; then it forgets all of them.
_MOST = 1_000
_WRITTEN: set[str] = set()
#: Number of micro-batches after which all objects are searched once, which frees cycles of Spark's
#: own objects that were frozen while in use.
_SEARCHED_EVERY = 128
#: The connection of this process's last task. The next task drops it; Java has closed its end then.
_LAST: list[Any] = []


def log_once(text: str, error: Exception) -> None:
    """Writes a traceback to standard error, which goes to `spark.log`, once per process for each
    cause. It is for the person who corrects the rule; users get the sentence on the records
    (decision 0253). `text`: the cause, with type, line and text of the error.
    """
    if text in _WRITTEN:
        return
    if len(_WRITTEN) == _MOST:
        _WRITTEN.clear()
    _WRITTEN.add(text)
    # A traceback has many lines, which may quote records.
    message = f"a rule raised: {text}\n{''.join(format_exception(error))}"
    for line in message.split("\n"):
        print(printable(line), file=sys.stderr)
    sys.stderr.flush()


class Freezer:
    """Keeps Python's search for cycles away from the state that stays from one micro-batch to the
    next.

    The state of 1,000 clusters is millions of objects. Python searches all of them when there are
    enough new ones, which is once or twice in a micro-batch, and finds nothing, because a fold
    makes no cycles. Frozen objects are not searched, but freed like others when nothing refers to
    them.
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
    """Keeps the connection of a finished task open, and does not report to Java that it has
    finished. `handle`: of the stateful processor.

    Java leaves its end open if Python closes the connection or reports the finish: one open file
    for every task (SPARK-58932; Spark 4.2.0). It closes its end only if the task ends first.
    """
    client = getattr(handle, "_statefulProcessorApiClient", None)
    if client is not None:
        client.set_handle_state = lambda state: None
        _LAST[:] = [client]


@contextmanager
def own_workers(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Gives the query Python workers of its own. Functions with the same environment share workers,
    and a task would then often run in a worker without its cached stores.
    """
    environment = spark.sparkContext.environment
    environment["REBALANCER_WORKERS"] = checkpoint
    try:
        yield
    finally:
        del environment["REBALANCER_WORKERS"]

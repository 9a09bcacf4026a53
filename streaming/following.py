"""Waits for the end of a query, and ends it between two micro-batches."""

from __future__ import annotations

import threading
import time

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from streaming.outputs.output import Output
from streaming.progress import Progress

#: Between two looks at a query, after one with news and after one without. A look takes some dozen
#: calls to Java; a micro-batch takes at least 50 ms, and Spark keeps the progress of the last 100.
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
_BATCH_POLL_S = 0.02


def follow(
    query: StreamingQuery,
    output: Output,
    progress: Progress,
    stop: threading.Event,
    longest_s: float,
) -> PySparkException | None:
    """Waits for the end of the query; returns its error, or None. A stop takes effect at once,
    between two micro-batches; other ends are noticed after the pause, of at most `longest_s`.
    """
    pause_s = SHORTEST_PAUSE_S
    try:
        while query.isActive:
            if stop.wait(pause_s):
                _finish_batch(query, output, progress)
                query.stop()
            before = progress.batches
            progress.poll(query)
            pause_s = longest_s
            if progress.batches > before:
                pause_s = SHORTEST_PAUSE_S
        return query.exception()
    except PySparkException as error:
        return error
    finally:
        if query.isActive:
            query.stop()
        progress.poll(query)


def _finish_batch(query: StreamingQuery, output: Output, progress: Progress) -> None:
    """Waits for the running micro-batch. The next one may have begun without a pause; it loses
    nothing and is repeated.
    """
    progress.poll(query)
    before = progress.batches
    while query.isActive and (
        output.busy or (query.status["isTriggerActive"] and progress.batches == before)
    ):
        time.sleep(_BATCH_POLL_S)
        progress.poll(query)

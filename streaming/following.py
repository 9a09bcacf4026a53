"""Waits for the end of a query, and ends it between two micro-batches."""

from __future__ import annotations

import threading
import time

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from streaming.outputs.output import Output
from streaming.progress import Pauses, Progress

_BATCH_POLL_S = 0.02


def follow(
    query: StreamingQuery,
    output: Output,
    progress: Progress,
    stop: threading.Event,
    pauses: Pauses,
) -> PySparkException | None:
    """Waits for the end of the query; returns its error, or None. A stop takes effect at once,
    between two micro-batches; other ends are noticed after the pause.
    """
    try:
        while query.isActive:
            if stop.wait(pauses.next_s):
                _finish_batch(query, output, progress)
                query.stop()
            before = progress.batches
            progress.poll(query)
            pauses.looked(news=progress.batches > before)
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

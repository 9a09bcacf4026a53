"""Restarts a streaming query from its checkpoint: after a failure of a busy machine, and after an
outage of the topics' servers.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from sinks.topics.server_outages import RetryBackoff
from strategies.errors import PublishTimeout, SinkError
from streaming.failures import DATA_LOSS, NO_CONNECTION, UNKNOWN_TOPIC

E = TypeVar("E", bound=BaseException)

#: Pauses between two attempts to start.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
#: Part of the text of a transient failure → the cause.
_PASSING = {
    NO_CONNECTION: "Spark's Python workers did not connect within its 10 seconds",
    "CANNOT_OPEN_SOCKET": "Spark opened no connection to its Python workers",
    "Connection reset": "the connection to Spark's Python workers broke",
    "SocketTimeoutException": "Spark's Python workers did not answer in time",
    "Python worker exited unexpectedly": "a Python worker of Spark ended unexpectedly",
}
#: Errors of Kafka and Pulsar clients after their own retries; a restarting broker may take longer
#: than these.
_AWAY = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "strategies.errors.PublishTimeout: pulsar",
    "Cannot fetch record for offset",
)


def is_transient(error: BaseException) -> bool:
    """True if a retry is likely to help."""
    return any(sign in str(error) for sign in _PASSING)


def is_outage(error: BaseException) -> bool:
    """True if the servers of the topics did not answer."""
    return any(sign in str(error) for sign in _AWAY)


def is_unknown_topic(error: BaseException) -> bool:
    """True if Kafka reported an unknown topic."""
    return UNKNOWN_TOPIC in str(error) and DATA_LOSS not in str(error)


def retry_after_outages(
    attempt: Callable[[], E | None],
    published: Callable[[], int],
    check_topics: Callable[[], None],
    outage: RetryBackoff,
) -> E | None:
    """Restarts a query from its checkpoint after each outage. Returns the error that ended the
    query, or None. Raises the error of `check_topics` if it is not retryable or the outage exceeds
    its limit.

    `attempt`: runs the query and returns its error. `published`: number of committed micro-batches.
    `check_topics`: requests the topics, and raises SinkError with their names.
    """
    while True:
        before = published()
        error = attempt()
        if published() > before:
            outage.succeeded()
        if error is None or not (is_outage(error) or is_unknown_topic(error)):
            return error
        if is_unknown_topic(error):
            _wait_for(check_topics, outage)
        outage.wait_or_raise(
            PublishTimeout(
                "the servers of the topics do not answer; the micro-batch is repeated when they do"
            )
        )
        _wait_for(check_topics, outage)


def _wait_for(check_topics: Callable[[], None], outage: RetryBackoff) -> None:
    while True:
        try:
            return check_topics()
        except SinkError as error:
            outage.wait_or_raise(error)


def machine_load() -> str:
    """Returns the load of this machine and its number of cores, as a phrase."""
    return f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"


def retry_transient(
    attempt: Callable[[], E | None],
    published: Callable[[], int],
    say: Callable[[str], None],
    *,
    limit_s: float,
    attempts: int,
    wait: Callable[[float], object],
    clock: Callable[[], float] = time.monotonic,
    load: Callable[[], str] = machine_load,
) -> E | None:
    """Restarts a query from its checkpoint after transient failures, until `limit_s` seconds have
    passed since the first failure without progress, and `attempts` attempts have failed.

    `published`: number of committed micro-batches. `say`: gets a line per attempt, with the reason
    of the failure before it. `wait`: sleeps between two attempts. Returns the error that ended the
    query, or None.
    """
    failures, since = 0, 0.0
    say("attempt 1")
    while True:
        before, began = published(), clock()
        error = attempt()
        failed = clock()
        failures = 1 if published() > before else failures + 1
        since = failed if failures == 1 else since
        is_over = failures >= attempts and failed - since >= limit_s
        if error is None or not is_transient(error) or is_over:
            return error
        what = next(what for sign, what in _PASSING.items() if sign in str(error))
        pause_s = float(min(_FIRST_PAUSE_S * 2.0 ** (failures - 1), _LONGEST_PAUSE_S))
        say(
            f"attempt {failures} failed after {failed - began:.0f} s: {what} "
            f"({load()}); attempt {failures + 1} in {pause_s:g} s, for up to "
            f"{limit_s:g} s in all (job.start_timeout_ms)"
        )
        wait(pause_s)

"""Converts the error of a failed streaming query to one of ours, with the cause and the next step
and without a stack trace. No other module does this.
"""

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sinks.disk import is_full, make_room
from sinks.topics.outages import RetryBackoff
from strategies import errors
from strategies.errors import PublishRejected, PublishTimeout, RebalancerError, SinkError

E = TypeVar("E", bound=BaseException)

#: Pauses between two attempts to start.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
#: Spark could not connect to its Python workers; on a busy machine the next attempt often succeeds.
_NO_CONNECTION = "failed to connect back"
#: Part of the text of a transient failure → the cause.
_PASSING = {
    _NO_CONNECTION: "Spark's Python workers did not connect within its 10 seconds",
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
#: A deleted topic; right after its start a broker may also report this for an existing topic.
_UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"
_DATA_LOSS = "Some data may have been lost"
#: Errors of Kafka → our error and the next step. Spark's own text is a stack trace of several
#: pages.
_KAFKA: tuple[tuple[str, type[errors.SinkError], str], ...] = (
    (
        _DATA_LOSS,
        errors.SinkError,
        "records of the telemetry topic were deleted before the job read them, or the topic "
        "was recreated: raise its retention.ms; to go "
        "on with the present records, set job.fail_on_data_loss=false for one start (which "
        "leaves a gap), or name a new job.checkpoint",
    ),
    (
        "RecordTooLargeException",
        errors.PublishRejected,
        "a record is larger than its topic allows: raise the topic's max.message.bytes",
    ),
    (
        _UNKNOWN_TOPIC,
        errors.SinkError,
        "a topic does not exist: create it with rebalancer topics create",
    ),
    (
        "SaslAuthenticationException",
        errors.SinkError,
        "authentication failed: check kafka.username, kafka.password_file and kafka.mechanism",
    ),
    (
        "SslAuthenticationException",
        errors.SinkError,
        "TLS certificate not trusted: check kafka.ca_file, kafka.cert_file and kafka.key_file",
    ),
    (
        "AuthorizationException",
        errors.SinkError,
        "this user is not authorized: grant it ACLs to read telemetry and write the other topics",
    ),
    (
        "not present in metadata",
        errors.SinkError,
        "a topic does not exist: create it with rebalancer topics create",
    ),
    (
        "kafka.common.errors.TimeoutException",
        errors.PublishTimeout,
        "Kafka does not answer: check that its brokers run",
    ),
    (
        "Cannot fetch record for offset",
        errors.PublishTimeout,
        "Kafka does not answer: check that its brokers run",
    ),
)
#: The workers' Python does not match ours → the reason.
_PYTHON: tuple[tuple[str, str], ...] = (
    (
        "PYTHON_VERSION_MISMATCH",
        "the workers run another minor version of Python than this program",
    ),
    ("Cannot run program", "a worker does not have this Python"),
)
_PYTHON_ERROR = re.compile(
    r"^((?:\w+\.)*(\w*(?:Error|Exception|InUse|Timeout|Rejected))): (.+)$", re.MULTILINE
)
#: Errors that only wrap others.
_WRAPPERS = ("pyspark.", "py4j.")


class JobError(RebalancerError):
    """The streaming query failed for a reason outside this project."""


def is_transient(error: BaseException) -> bool:
    """True if a retry is likely to help."""
    return any(sign in str(error) for sign in _PASSING)


def is_outage(error: BaseException) -> bool:
    """True if the servers of the topics did not answer."""
    return any(sign in str(error) for sign in _AWAY)


def is_unknown_topic(error: BaseException) -> bool:
    """True if Kafka reported an unknown topic."""
    return _UNKNOWN_TOPIC in str(error) and _DATA_LOSS not in str(error)


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


def explain(error: BaseException, spark_log: Path) -> RebalancerError:
    """Returns the error to raise for a failed query: the worker's own, if it is one of ours,
    otherwise a JobError. `spark_log`: the file that the message names.
    """
    if isinstance(error, PublishRejected):
        return error
    for sign, refused, sentence in _KAFKA:
        if sign in str(error):
            return refused(
                f"{sentence}; then start the job again, it continues where it stopped "
                f"(Spark's log: {spark_log})"
            )
    for sign, sentence in _PYTHON:
        if sign in str(error):
            name = f"python{sys.version_info.major}.{sys.version_info.minor}"
            return JobError(
                f"{sentence}: install {name} on every worker, or name the one they have in "
                "the environment variable "
                f"PYSPARK_PYTHON (Spark's log: {spark_log})"
            )
    if _NO_CONNECTION in str(error):
        return JobError(
            "Spark's Python workers did not connect within its 10 seconds in any attempt of "
            "job.start_timeout_ms: too little CPU. "
            "Nothing is lost: give the job more CPU, or raise job.start_timeout_ms, and start "
            "it again; it continues where it stopped. "
            f"Spark's log: {spark_log}"
        )
    name, text = _cause(str(error))
    kind = getattr(errors, name, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, RebalancerError)
        and kind is not errors.SettingsError
        and kind is not errors.WireError
    ):
        return kind(text)
    if is_full(error):
        room = make_room([spark_log.parent, Path(tempfile.gettempdir())])
        return JobError(
            f"the disk is full ({text.rstrip('.')}); {room} (job.checkpoint, TMPDIR), then start "
            "the job again: nothing is lost, it continues where it stopped. "
            f"Spark's log: {spark_log}"
        )
    return JobError(
        f"the streaming job failed: {text.rstrip('.')}. Nothing is lost: start it again, it "
        "continues where it stopped. "
        f"Spark's log: {spark_log}"
    )


def java_end_error(code: int, spark_log: Path) -> JobError:
    """Returns the error to raise after Spark's Java process has ended. `code`: its exit code, or
    the negative number of a signal.
    """
    how = f"ended with exit code {code}" if code >= 0 else f"was killed by {_signal_name(-code)}"
    return JobError(
        f"Spark's Java process {how}; start the job again, it continues where it stopped. If "
        "memory ran out (see the kernel's log "
        "and OutOfMemoryError in Spark's), change job.driver_memory or the memory of the "
        f"machine. Spark's log: {spark_log}"
    )


def _signal_name(number: int) -> str:
    return next((kind.name for kind in signal.Signals if kind == number), f"signal {number}")


def _cause(text: str) -> tuple[str, str]:
    """Returns name and text of the innermost Python error in Spark's text; without one, an empty
    name and the first line.
    """
    errors_in = list(_PYTHON_ERROR.finditer(text))
    theirs = [match for match in errors_in if not match[1].startswith(_WRAPPERS)] or errors_in
    if theirs:
        path, name, sentence = theirs[-1].groups()
        return name, sentence if path.startswith("strategies.") else f"{name}: {sentence}"
    return "", first_line(text)


def first_line(text: str) -> str:
    """Returns the first line of an error's text, without the line that py4j puts before it."""
    lines = (
        line.removeprefix(": ")
        for line in text.strip().splitlines()
        if not line.startswith("An error occurred while calling")
    )
    return next(lines, "no reason given")[:500]

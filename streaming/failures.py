"""The one place where a failed streaming query becomes an error of ours: the cause in a sentence and the next step, no stack trace."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sinks.topics.retry_backoff import RetryBackoff
from strategies import errors
from strategies.errors import PublishRejected, PublishTimeout, RebalancerError, SinkError

E = TypeVar("E", bound=BaseException)

#: Signs that Spark could not reach its Python workers; on a busy machine the same start succeeds a moment later.
_BUSY = "failed to connect back"
#: Sign of a passing failure → what happened.
_PASSING = {
    _BUSY: "Spark's Python workers did not connect within its 10 seconds",
    "CANNOT_OPEN_SOCKET": "Spark opened no connection to its Python workers",
    "Connection reset": "the connection to Spark's Python workers broke",
    "SocketTimeoutException": "Spark's Python workers did not answer in time",
    "Python worker exited unexpectedly": "a Python worker of Spark ended unexpectedly",
}
#: What the clients of Kafka and Pulsar say when they have tried for a while; a broker that restarts may take longer.
_AWAY = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "strategies.errors.PublishTimeout: pulsar",
    "Cannot fetch record for offset",
)
#: A topic that was deleted; right after a start, a broker may say so of one that is there.
_GONE = "UnknownTopicOrPartitionException"
_LOST = "Some data may have been lost"
#: Signs of what Kafka has refused → the error and what to do. Spark's own text is a stack trace of pages.
_KAFKA: tuple[tuple[str, type[errors.SinkError], str], ...] = (
    (
        _LOST,
        errors.SinkError,
        "records of the telemetry topic were deleted before the job read them, or the topic was made anew: raise its retention.ms; to go "
        "on with what is there, set kafka.fail_on_data_loss=false for one start (which leaves a gap), or name a new job.checkpoint",
    ),
    ("RecordTooLargeException", errors.PublishRejected, "a record is larger than its topic allows: raise the topic's max.message.bytes"),
    (_GONE, errors.SinkError, "a topic is gone: make it with rebalancer topics create"),
    (
        "SaslAuthenticationException",
        errors.SinkError,
        "no login: check kafka.username, kafka.password_file and kafka.mechanism",
    ),
    ("SslAuthenticationException", errors.SinkError, "no trust: check kafka.ca_file, kafka.cert_file and kafka.key_file"),
    ("AuthorizationException", errors.SinkError, "this user may not use a topic: ask for the right to read telemetry and write the others"),
    ("not present in metadata", errors.SinkError, "a topic is gone: make it with rebalancer topics create"),
    ("kafka.common.errors.TimeoutException", errors.PublishTimeout, "Kafka does not answer: check that its brokers run"),
    ("Cannot fetch record for offset", errors.PublishTimeout, "Kafka does not answer: check that its brokers run"),
)
#: Signs that the workers' Python is not ours → what to do.
_PYTHON: tuple[tuple[str, str], ...] = (
    ("PYTHON_VERSION_MISMATCH", "the workers run another minor version of Python than this program"),
    ("Cannot run program", "a worker has no such Python"),
)
_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*(\w*(?:Error|Exception|InUse|Timeout|Rejected))): (.+)$", re.MULTILINE)
#: Errors that only carry others.
_WRAPPERS = ("pyspark.", "py4j.")


class JobError(RebalancerError):
    """The streaming query failed for a reason outside this project."""


def is_passing(error: BaseException) -> bool:
    """Whether trying the same again is likely to help."""
    return any(sign in str(error) for sign in _PASSING)


def is_outage(error: BaseException) -> bool:
    """Whether Kafka did not answer."""
    return any(sign in str(error) for sign in _AWAY)


def is_gone(error: BaseException) -> bool:
    """Whether Kafka did not know a topic."""
    return _GONE in str(error) and _LOST not in str(error)


def again_after_outages(
    attempt: Callable[[], E | None], published: Callable[[], int], reach: Callable[[], None], outage: RetryBackoff
) -> E | None:
    """Runs a query again, from its checkpoint, when Kafka was away and is back: `reach` asks it and raises SinkError, which names topics.

    Gives the error that ended the query, or None. Raises what `reach` raises when waiting cannot help or no patience is left.
    """
    while True:
        before = published()
        error = attempt()
        if published() > before:
            outage.over()
        if error is None or not (is_outage(error) or is_gone(error)):
            return error
        if is_gone(error):
            _wait_for(reach, outage)
        outage.wait_or_raise(PublishTimeout("the servers of the topics do not answer; what was begun is repeated when they do"))
        _wait_for(reach, outage)


def _wait_for(reach: Callable[[], None], outage: RetryBackoff) -> None:
    while True:
        try:
            return reach()
        except SinkError as error:
            outage.wait_or_raise(error)


def again_while_passing(
    attempt: Callable[[], E | None], published: Callable[[], int], attempts: int, say: Callable[[str], None]
) -> E | None:
    """Runs a query again, from its checkpoint, as long as it fails for a passing reason: at most `attempts` times without any progress.

    `published` counts micro-batches. `say` gets one line before each new attempt. Gives the error that ended it, or None.
    """
    failures = 0
    while True:
        before = published()
        error = attempt()
        failures = 1 if published() > before else failures + 1
        if error is None or failures >= attempts or not is_passing(error):
            return error
        what = next(what for sign, what in _PASSING.items() if sign in str(error))
        say(f"{what}, the machine may be too busy; attempt {failures + 1} of {attempts} waits for them again (job.start_attempts)")


def explain(error: BaseException, spark_log: Path) -> RebalancerError:
    """The error to raise for a failed query: our own one if it was raised in a worker, otherwise a JobError."""
    if isinstance(error, PublishRejected):
        return error
    for sign, refused, sentence in _KAFKA:
        if sign in str(error):
            return refused(f"{sentence}; then start the job again, it goes on where it stopped (all that Spark said is in {spark_log})")
    for sign, sentence in _PYTHON:
        if sign in str(error):
            name = f"python{sys.version_info.major}.{sys.version_info.minor}"
            return JobError(
                f"{sentence}: install {name} on every worker, or name the one they have in the environment variable "
                f"PYSPARK_PYTHON (all that Spark said is in {spark_log})"
            )
    if _BUSY in str(error):
        return JobError(
            "Python processes of the job did not connect to Spark within its 10 seconds, in all of job.start_attempts: too little CPU. "
            "Nothing is lost: give the job more CPU, or raise job.start_attempts, and start it again; it goes on where it stopped. "
            f"All that Spark said is in {spark_log}"
        )
    name, text = _cause(str(error))
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, RebalancerError) and kind is not errors.SettingsError and kind is not errors.WireError:
        return kind(text)
    return JobError(
        f"the streaming job failed: {text.rstrip('.')}. Nothing is lost: start it again and it goes on where it stopped. "
        f"All that Spark said is in {spark_log}"
    )


def dead_java(code: int, spark_log: Path) -> JobError:
    """The error to raise when Spark's Java process has ended. `code`: its exit code, negative for the number of a signal."""
    how = f"ended with exit code {code}" if code >= 0 else f"was killed by {_signal_name(-code)}"
    return JobError(
        f"Spark's Java process {how}; start the job again, it goes on where it stopped. If memory ran out (look for it in the kernel's log "
        f"and for OutOfMemoryError in Spark's), change job.driver_memory or the memory of the machine. What Spark said is in {spark_log}"
    )


def _signal_name(number: int) -> str:
    return next((one.name for one in signal.Signals if one == number), f"signal {number}")


def _cause(text: str) -> tuple[str, str]:
    """Name and sentence of the innermost Python error in Spark's text; else its first line."""
    found = list(_PYTHON_ERROR.finditer(text))
    theirs = [match for match in found if not match[1].startswith(_WRAPPERS)] or found
    if theirs:
        path, name, sentence = theirs[-1].groups()
        return name, sentence if path.startswith("strategies.") else f"{name}: {sentence}"
    lines = (line.removeprefix(": ") for line in text.strip().splitlines() if not line.startswith("An error occurred while calling"))
    return "", next(lines, "no reason given")[:500]

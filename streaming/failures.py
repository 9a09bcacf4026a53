"""Converts the error of a failed streaming query to one of ours, with the cause and the next step
and without a stack trace. No other module does this.
"""

import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import TypeVar

from sinks.durable_files import is_full, make_room
from strategies import errors
from strategies.errors import PublishRejected, RebalancerError

E = TypeVar("E", bound=BaseException)

#: Spark could not connect to its Python workers; on a busy machine the next attempt often succeeds.
NO_CONNECTION = "failed to connect back"
#: A deleted topic; right after its start a broker may also report this for an existing topic.
UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"
DATA_LOSS = "Some data may have been lost"
#: Errors of Kafka → our error and the next step. Spark's own text is a stack trace of several
#: pages.
_KAFKA: tuple[tuple[str, type[errors.SinkError], str], ...] = (
    (
        DATA_LOSS,
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
        UNKNOWN_TOPIC,
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
    if NO_CONNECTION in str(error):
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

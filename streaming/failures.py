"""The one place where a failed streaming query becomes an error of ours: the cause in a sentence and the next step, no stack trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from strategies import errors
from strategies.errors import RebalancerError

E = TypeVar("E", bound=BaseException)

#: Signs that Spark could not reach its Python workers; on a busy machine the same start succeeds a moment later.
_PASSING = (
    "failed to connect back",
    "CANNOT_OPEN_SOCKET",
    "Connection reset",
    "SocketTimeoutException",
    "Python worker exited unexpectedly",
)
_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*(\w*(?:Error|Exception|InUse|Timeout|Rejected))): (.+)$", re.MULTILINE)
#: Errors that only carry others.
_WRAPPERS = ("pyspark.", "py4j.")


class JobError(RebalancerError):
    """The streaming query failed for a reason outside this project."""


def is_passing(error: BaseException) -> bool:
    """Whether trying the same again is likely to help."""
    return any(sign in str(error) for sign in _PASSING)


def again_while_passing(attempt: Callable[[], E | None], published: Callable[[], int], attempts: int) -> E | None:
    """Runs a query again, from its checkpoint, as long as it fails for a passing reason: at most `attempts` times without any progress.

    `published` counts micro-batches. Gives the error that ended it, or None.
    """
    failures = 0
    while True:
        before = published()
        error = attempt()
        failures = 1 if published() > before else failures + 1
        if error is None or failures >= attempts or not is_passing(error):
            return error


def explain(error: BaseException, spark_log: Path) -> RebalancerError:
    """The error to raise for a failed query: our own one if it was raised in a worker, otherwise a JobError."""
    name, text = _cause(str(error))
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, RebalancerError) and kind is not errors.SettingsError and kind is not errors.WireError:
        return kind(text)
    return JobError(
        f"the streaming job failed: {text.rstrip('.')}. Nothing is lost: start it again and it goes on where it stopped. "
        f"All that Spark said is in {spark_log}"
    )


def _cause(text: str) -> tuple[str, str]:
    """Name and sentence of the innermost Python error in Spark's text; else its first line."""
    found = list(_PYTHON_ERROR.finditer(text))
    theirs = [match for match in found if not match[1].startswith(_WRAPPERS)] or found
    if theirs:
        path, name, sentence = theirs[-1].groups()
        return name, sentence if path.startswith("strategies.") else f"{name}: {sentence}"
    return "", next(iter(text.strip().splitlines()), "no reason given")[:500]

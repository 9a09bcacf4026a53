"""Decides which of several outcomes of a command says what became of it."""

from collections.abc import Sequence

from strategies.cluster.model import Outcome

#: `applied` precedes `already-done`, which an executor publishes for a repeated command; then all
#: others; a dry run comes last.
_PRECEDENCE = {"applied": 3, "already-done": 2, "dry-run": 0}


def decisive(given: Sequence[Outcome]) -> Outcome | None:
    """The decisive outcome of a command: the one that applied it, otherwise the newest without dry
    runs, otherwise any.
    """
    return max(reversed(given), key=lambda one: _PRECEDENCE.get(one.status, 1), default=None)

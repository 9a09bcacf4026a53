"""What executors made of commands, in words: the verdict beside every command that is shown, and all its outcomes where it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rebalancer.analysis.explain.history import DecisionHistory
from strategies.model import Command, Outcome

#: A real verdict tells more than a refusal to repeat it, and a dry run tells least.
_TELLING = {"applied": 3, "already-done": 2, "dry-run": 0}


def telling(given: Sequence[Outcome]) -> Outcome | None:
    """Of a command's outcomes the one that says what became of it: that carried it out, else the newest that is no dry run, else any."""
    return max(enumerate(given), key=lambda one: (_TELLING.get(one[1].status, 1), one[0]))[1] if given else None


def verdict_words(command: Command, history: DecisionHistory) -> str:
    """`: refused (paused: …)`, to be added to a line about the command; empty where outcomes are not at hand."""
    if not history.has_outcomes:
        return ""
    found = telling(history.outcomes_of(command))
    return f": {why_missing(command, history)}" if found is None else f": {in_short(found)}"


def verdict_counts(commands: Sequence[Command], history: DecisionHistory) -> str:
    """` [2 applied, 1 refused: paused]`, of commands that one line shows together; empty where outcomes are not at hand."""
    if not history.has_outcomes or not commands:
        return ""
    counts = Counter(_kind(telling(history.outcomes_of(one))) for one in commands)
    return f" [{', '.join(f'{count} {kind}' for kind, count in counts.items())}]"


def _kind(outcome: Outcome | None) -> str:
    if outcome is None:
        return "without an outcome"
    code = (outcome.reason or "").partition(":")[0]
    return outcome.status if code in ("", outcome.status) else f"{outcome.status}: {code}"


def in_short(outcome: Outcome) -> str:
    """Status, new owner and reason."""
    match outcome.status:
        case "applied":
            return f"applied{_where(outcome)}{_why(outcome)}"
        case "dry-run":
            return "dry run, nothing was moved"
        case status:
            return f"{status}{_why(outcome)}"


def _where(outcome: Outcome) -> str:
    return f", now on {outcome.owner_after}" if outcome.owner_after else ""


def _why(outcome: Outcome) -> str:
    return f" ({outcome.reason})" if outcome.reason else ""


def why_missing(command: Command, history: DecisionHistory) -> str:
    """Of a command without any outcome."""
    if not history.has_outcomes:
        return "not known, no outcomes are at hand; --outcomes names their topic"
    if history.last_ms < command.expires_at_ms:
        return "none yet"
    return "none: no executor answered before it expired"

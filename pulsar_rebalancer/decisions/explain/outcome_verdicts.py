"""Outcomes of commands in words: a verdict for each command shown, and all outcomes on request."""

from collections import Counter
from collections.abc import Sequence

from pulsar_rebalancer.decisions.log import DecisionLog
from strategies.cluster.model import Command, Outcome


def verdict_words(command: Command, log: DecisionLog) -> str:
    """`: refused (paused: …)`, to append to a line about the command; empty if the log has no
    outcomes.
    """
    if not log.has_outcomes:
        return ""
    found = log.outcome_of(command)
    return f": {why_missing(command, log)}" if found is None else f": {in_short(found)}"


def verdict_counts(commands: Sequence[Command], log: DecisionLog) -> str:
    """` [2 applied, 1 refused: paused]`, for commands that share a line; empty if the log has
    no outcomes.
    """
    if not log.has_outcomes or not commands:
        return ""
    counts = Counter(_kind(log.outcome_of(one)) for one in commands)
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
            where = f", now on {outcome.owner_after}" if outcome.owner_after else ""
            return f"applied{where}{_costs(outcome)}{_why(outcome)}"
        case "dry-run":
            return "dry run, no bundle was moved"
        case status:
            return f"{status}{_why(outcome)}"


def _costs(outcome: Outcome) -> str:
    """The costs for the clients, as far as they were measured."""
    parts = []
    if outcome.cost.topics is not None:
        parts.append(f"{outcome.cost.topics} topics")
    if outcome.cost.unowned_ms is not None:
        parts.append(f"without owner for {outcome.cost.unowned_ms / 1000:.2f} s")
    if outcome.cost.first_message_ms is not None:
        parts.append(f"first message after {outcome.cost.first_message_ms / 1000:.2f} s")
    return f"; {', '.join(parts)}" if parts else ""


def _why(outcome: Outcome) -> str:
    return f" ({outcome.reason})" if outcome.reason else ""


def why_missing(command: Command, log: DecisionLog) -> str:
    """The reason why a command has no outcome."""
    if not log.has_outcomes:
        return "unknown: no outcomes were read; name their topic with --outcomes"
    if log.last_ms < command.expires_at_ms:
        waits_for = log.waits_for.get(command.id, "")
        return f"none yet: {waits_for}" if waits_for else "none yet"
    return "none: no executor answered before it expired"

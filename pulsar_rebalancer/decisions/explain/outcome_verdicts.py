"""Outcomes of commands in words: a verdict for each command shown, and all outcomes on request;
and what moves cost the clients of their bundles, as executors have measured it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from pulsar_rebalancer.decisions.log import DecisionLog
from strategies.cluster.model import Command, Outcome
from strategies.cluster.move_cost import TOPIC_CLASSES, MoveCost, topic_class

_UNKNOWN = "–"
#: Heads of a table of `CostsOfMoves.row`.
HEADS = (
    "load manager",
    "topics",
    "moves",
    "without owner, median s",
    "longest s",
    "first message, median s",
    "longest s",
)


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


@dataclass(frozen=True, slots=True)
class CostsOfMoves:
    """The moves of bundles with about as many topics. `unowned_ms`, `first_message_ms`: median and
    longest; None if no move has the figure.
    """

    manager: str
    topics: str
    moves: int
    unowned_ms: tuple[int, int] | None
    first_message_ms: tuple[int, int] | None

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of a table: manager, topics, moves, and median and longest time in seconds."""
        return (
            self.manager,
            self.topics,
            str(self.moves),
            *_seconds(self.unowned_ms),
            *_seconds(self.first_message_ms),
        )

    @property
    def line(self) -> str:
        """The same as a sentence."""
        parts = [
            f"{what} {of[0]} s (longest {of[1]} s)"
            for what, of in (
                ("without owner for", _seconds(self.unowned_ms)),
                ("first message after", _seconds(self.first_message_ms)),
            )
            if of[0] != _UNKNOWN
        ]
        return f"{self.manager}, {self.topics} topics, {self.moves} moves: {', '.join(parts)}"


def move_costs(outcomes: Iterable[Outcome]) -> list[CostsOfMoves]:
    """The classes that have measured moves, by manager, fewest topics first."""
    groups: dict[tuple[str, int], list[MoveCost]] = {}
    for one in dict.fromkeys(outcomes):
        cost = one.cost
        if one.status == "applied" and (cost.unowned_ms, cost.first_message_ms) != (None, None):
            group = (cost.manager or "unknown", _class_of(cost.topics))
            groups.setdefault(group, []).append(cost)
    return [
        CostsOfMoves(
            manager,
            _words(number),
            len(moves),
            _spread([one.unowned_ms for one in moves]),
            _spread([one.first_message_ms for one in moves]),
        )
        for (manager, number), moves in sorted(groups.items())
    ]


def _class_of(topics: int | None) -> int:
    if topics is None:
        return len(TOPIC_CLASSES) + 1
    return topic_class(topics)


def _words(number: int) -> str:
    if number > len(TOPIC_CLASSES):
        return "unknown"
    if number == len(TOPIC_CLASSES):
        return f"{TOPIC_CLASSES[-1] + 1} or more"
    low = 0 if number == 0 else TOPIC_CLASSES[number - 1] + 1
    return f"{low}–{TOPIC_CLASSES[number]}"


def _spread(figures: Sequence[int | None]) -> tuple[int, int] | None:
    known = [figure for figure in figures if figure is not None]
    return (round(median(known)), max(known)) if known else None


def _seconds(spread: tuple[int, int] | None) -> tuple[str, str]:
    if spread is None:
        return _UNKNOWN, _UNKNOWN
    return f"{spread[0] / 1000:.2f}", f"{spread[1] / 1000:.2f}"

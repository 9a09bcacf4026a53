"""What moves cost the clients of their bundles, as executors have measured it: median and longest
time without an owner and to the first message, by load manager and number of topics.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from strategies.cluster.model import Outcome
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
            group = len(TOPIC_CLASSES) + 1 if cost.topics is None else topic_class(cost.topics)
            groups.setdefault((cost.manager or "unknown", group), []).append(cost)
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

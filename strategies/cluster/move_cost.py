"""The cost of moves for the clients of their bundles, as far as executors have measured it, and the
expected cost of the next one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from strategies.ordered_sum import ordered_sum


@dataclass(frozen=True, slots=True)
class MoveCost:
    """None where nothing was measured.

    `unowned_ms`: from the answer to the last unload until a broker owned the bundle;
    `first_message_ms`: from then until the new owner had a message of a topic that had traffic;
    `topics`: topics of the bundle; `unloads`: how often it was unloaded, a repair included;
    `manager`: the load manager of the cluster.
    """

    unowned_ms: int | None = None
    first_message_ms: int | None = None
    topics: int | None = None
    unloads: int | None = None
    manager: Literal["modular", "extensible"] | None = None


NOT_MEASURED = MoveCost()
#: Largest number of topics of a class of bundles; the last one has no end.
TOPIC_CLASSES = (1, 9, 99, 999)
#: Pause (ms) that is expected before any was measured.
_UNKNOWN_MS = 1_000.0


class MeasuredPause(NamedTuple):
    """The pause (ms) of one move, and when its outcome was published (ms since the epoch)."""

    ts: int
    command_id: str
    topics: int
    pause_ms: int


def topic_class(topics: int) -> int:
    """Number of the class of a bundle with this number of topics."""
    return bisect_left(TOPIC_CLASSES, topics)


def expected_pause_ms(pauses: Sequence[MeasuredPause], topics: int) -> float:
    """Mean pause of bundles with about as many topics, or of all moves, or a second before any was
    measured.
    """
    alike = [pause.pause_ms for pause in pauses if topic_class(pause.topics) == topic_class(topics)]
    samples = alike or [pause.pause_ms for pause in pauses]
    return ordered_sum(samples) / len(samples) if samples else _UNKNOWN_MS

"""The pause that a move costs the clients of its bundle: as executors measured it, and as expected
of the next move.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from strategies.ordered_sum import ordered_sum


@dataclass(frozen=True, slots=True)
class MoveCost:
    """The cost of one move; None where nothing was measured."""

    #: From the answer to the last unload until a broker owned the bundle.
    unowned_ms: int | None = None
    #: From that answer until the new owner had a message of a topic that had traffic.
    first_message_ms: int | None = None
    #: Number of topics of the bundle.
    topics: int | None = None
    #: Number of unloads of the bundle, a repair included.
    unloads: int | None = None
    #: The load manager of the cluster.
    manager: Literal["modular", "extensible"] | None = None


NOT_MEASURED = MoveCost()
#: Largest number of topics of each class of bundles but the last, which has no limit.
TOPIC_CLASSES = (1, 9, 99, 999)
#: Expected pause (ms) before the first measurement.
_UNKNOWN_MS = 1_000.0


class MeasuredPause(NamedTuple):
    """The pause of one move."""

    #: When its outcome was published (ms since the epoch).
    ts: int
    command_id: str
    topics: int
    pause_ms: int


def topic_class(topics: int) -> int:
    """Returns the number, from 0, of the class of a bundle with this number of topics."""
    return bisect_left(TOPIC_CLASSES, topics)


def expected_pause_ms(pauses: Sequence[MeasuredPause], topics: int) -> float:
    """Returns the mean pause of bundles of the same class of topics; of all bundles where none of
    this class was measured; `_UNKNOWN_MS` before the first measurement.
    """
    alike = [pause.pause_ms for pause in pauses if topic_class(pause.topics) == topic_class(topics)]
    samples = alike or [pause.pause_ms for pause in pauses]
    return ordered_sum(samples) / len(samples) if samples else _UNKNOWN_MS

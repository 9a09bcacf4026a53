"""What a new checkpoint reads without publishing: decided once, before the first micro-batch, and
kept in the guard file, so that a start after a kill continues with the same boundary. Imports no
Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sinks.topics.pulsar.message_id import MessageId


@dataclass(frozen=True, slots=True)
class WarmStart:
    """`since_ms`: reading begins with records of this time (ms since the epoch); `until`: partition
    → offset of its first record that is published; in other partitions, all are. `done`: all
    records before `until` have been committed.
    """

    since_ms: int
    until: Mapping[int, int]
    done: bool = False

    def passed(self, end: str | None) -> bool:
        """Whether a micro-batch reached `until` in all partitions. `end`: its end offset, as Spark
        reports it.
        """
        try:
            reached = _reached(json.loads(end or ""))
            return all(reached(*first) for first in self.until.items())
        except (TypeError, ValueError, KeyError, AttributeError):
            return False


@dataclass(frozen=True, slots=True)
class Warming:
    """How a new checkpoint of these settings fills its memory. `minutes`: of telemetry that it
    reads without publishing, 0 for none; `decide`: called before its guard file is written; None if
    it reads and publishes all.
    """

    minutes: int = 0
    decide: Callable[[], WarmStart | None] = field(default=lambda: None)

    @property
    def in_words(self) -> str:
        """What becomes of averages and hit counts, for people who must name a new checkpoint."""
        if not self.minutes:
            return "averages and hit counts then start from zero"
        return (
            f"it first reads the telemetry of the last {self.minutes} minutes without publishing, "
            "which fills averages and hit counts"
        )


NO_WARMING = Warming()


def _reached(end: Mapping[str, Any]) -> Callable[[int, int], bool]:
    """Whether a partition was read up to an offset; `end`: of a micro-batch."""
    if "segment" in end:  # of a file topic, whose segments follow each other
        place = int(end["segment"]), int(end["byte"])
        return lambda segment, byte: segment < place[0] or (segment, byte) <= place
    if all(isinstance(place, list) for place in end.values()):
        taken = {int(number): _after(*map(int, place[:3])) for number, place in end.items()}
    else:
        (offsets,) = end.values()
        taken = {int(number): int(offset) for number, offset in offsets.items()}
    return lambda number, offset: taken.get(number, 0) >= offset


def _after(ledger: int, entry: int, batch: int) -> int:
    return 0 if ledger < 0 else MessageId(ledger, entry, batch).offset + 1

"""Micro-batches are reported once each, however often and however late somebody looks."""

from types import SimpleNamespace
from typing import Any

from streaming.progress import BatchProgress, Progress


class AQuery:
    def __init__(self) -> None:
        self.recentProgress: list[Any] = []

    @property
    def lastProgress(self) -> Any:
        return self.recentProgress[-1] if self.recentProgress else None

    def tells(self, batch: int, records: int) -> None:
        at = f"2026-01-01T00:00:{len(self.recentProgress):02}.000Z"
        source = SimpleNamespace(latestOffset=None, endOffset=None)
        told = {
            "batchId": batch,
            "timestamp": at,
            "numInputRows": records,
            "durationMs": {"triggerExecution": 5},
            "sources": [source],
        }
        self.recentProgress.append(SimpleNamespace(**told, stateOperators=[], observedMetrics={}))


def looking() -> tuple[list[int], Progress]:
    seen: list[int] = []

    def report(progress: BatchProgress) -> None:
        seen.append(progress.batch)

    return seen, Progress(report)


def test_what_was_missed_between_two_looks_is_told_too() -> None:
    seen, progress = looking()
    query: Any = AQuery()
    progress.poll(query)
    for batch in (7, 8):
        query.tells(batch, 10)
    for _ in range(3):
        progress.poll(query)
    query.tells(9, 10)
    progress.poll(query)
    assert (seen, progress.batches) == ([7, 8, 9], 3)


def test_an_idle_query_hides_nothing() -> None:
    """It tells of itself every ten seconds under the number of the micro-batch to come."""
    seen, progress = looking()
    query: Any = AQuery()
    for batch, records in ((0, 10), (1, 0), (1, 0), (1, 10), (2, 0)):
        query.tells(batch, records)
        progress.poll(query)
    assert seen == [0, 1]


def test_a_query_that_was_started_again_goes_on_counting() -> None:
    seen, progress = looking()
    for batches in ((0, 1), (2, 3)):
        query: Any = AQuery()
        for batch in batches:
            query.tells(batch, 10)
        progress.poll(query)
    assert seen == [0, 1, 2, 3]

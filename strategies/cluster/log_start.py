"""Estimates a new cluster's time from its first records, which may be old or come from a clock that
runs ahead.

Nothing is published before the first round closes. So the engine keeps the first records and folds
them again when a better time is known: the time that most records are near, or, with priority, the
time of a sweep, which ends a pass of the collector.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from strategies.cluster.clock import Clock
from strategies.cluster.model import TelemetryRecord
from strategies.cluster.packing import compress_record, decompress_record

#: After this number of records without a round, the time near most of them is taken, which keeps
#: the state small.
LONGEST_LOG_START = 256
#: Number of records near the time that a first round without a sweep requires: the smaller if all
#: records are near, else the larger.
_ENOUGH, _ENOUGH_OF_MANY = 6, 16


@dataclass(frozen=True, slots=True)
class EarlyRecord:
    """A record from the log's start, and its time. `compressed`: the packed record; the cluster's
    state contains it until the first round. `far`: too far from the cluster's time, therefore not
    folded.
    """

    ts: int
    compressed: bytes
    far: bool

    @staticmethod
    def of(record: TelemetryRecord, far: bool) -> EarlyRecord:
        """Keeps the record."""
        return EarlyRecord(record.ts, compress_record(record), far)

    @property
    def record(self) -> TelemetryRecord:
        """The inverse of `of`."""
        return decompress_record(self.compressed)


def corrected_time(
    times: Sequence[int], clock: Clock | None, jump_ms: int, *, swept: bool
) -> int | None:
    """The time by which to fold the log's start again; None if `clock` is right or no two records
    agree yet.

    `times`: of all records so far; `swept`: the last one is a sweep, whose time counts once another
    record is near it.
    """
    ordered = sorted(times)
    if swept and _near(ordered, times[-1], jump_ms) > 1:
        best = times[-1]
    else:
        best = max(ordered, key=lambda ts: _near(ordered, ts, jump_ms))
        if _near(ordered, best, jump_ms) < max(
            2, 0 if clock is None else 1 + _near(ordered, clock.now_ms, jump_ms)
        ):
            return None
    return None if clock is not None and abs(best - clock.now_ms) <= jump_ms else best


def may_close_first_round(early: Sequence[EarlyRecord]) -> bool:
    """Whether a first round may close without a sweep, at a record that is near the cluster's
    time.
    """
    far = sum(1 for one in early if one.far)
    near = len(early) + 1 - far
    return near >= (_ENOUGH_OF_MANY if far else _ENOUGH) and near > 2 * far


def _near(ordered: Sequence[int], ts: int, jump_ms: int) -> int:
    return bisect_right(ordered, ts + jump_ms) - bisect_left(ordered, ts - jump_ms)

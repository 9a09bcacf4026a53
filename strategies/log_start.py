"""The time at the start of a log, where records that agree with each other may all be wrong: one clock that is ahead, old leftovers.

Until the first round has closed nothing is published, so its records are kept and folded again by a better clock when there is one: the
one most records are near to, and above all the one of a sweep, with which the collector ends a pass.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from strategies.clock import Clock

#: After this number of records without a round, the time that most of them are near to is taken: the state must stay small.
LONGEST_LOG_START = 256
#: Without a sweep, this number of records must be near the time before a round closes by it; the larger number if not all are.
_ENOUGH, _ENOUGH_OF_MANY = 6, 16


@dataclass(frozen=True, slots=True)
class EarlyRecord:
    """A packed record of the log's start and its time. `far`: too far from the cluster's time, so it was not folded."""

    ts: int
    packed: bytes
    far: bool


def better_time(times: Sequence[int], clock: Clock | None, jump_ms: int, *, swept: bool) -> int | None:
    """The time to fold the log's start by, if not `clock`; None if that is right, or if no two records agree yet.

    `times`: of all records so far; `swept`: the last of them is a sweep, whose time counts once another record is near it.
    """
    ordered = sorted(times)
    if swept and _near(ordered, times[-1], jump_ms) > 1:
        best = times[-1]
    else:
        best = max(ordered, key=lambda ts: _near(ordered, ts, jump_ms))
        if _near(ordered, best, jump_ms) < max(2, 0 if clock is None else 1 + _near(ordered, clock.now_ms, jump_ms)):
            return None
    return None if clock is not None and abs(best - clock.now_ms) <= jump_ms else best


def is_sure(early: Sequence[EarlyRecord]) -> bool:
    """Whether a first round may close without a sweep, at a record that is near the cluster's time."""
    far = sum(one.far for one in early)
    near = len(early) + 1 - far
    return near >= (_ENOUGH_OF_MANY if far else _ENOUGH) and near > 2 * far


def _near(ordered: Sequence[int], ts: int, jump_ms: int) -> int:
    return bisect_right(ordered, ts + jump_ms) - bisect_left(ordered, ts - jump_ms)

"""What time it is when a log begins: the earliest on which two records agree, because a broken clock may run ahead of the right one.

Until the first round has closed, what was heard is kept, so that the beginning can be told again when an earlier time turns up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: After so many records without a round, whoever came first is believed: the state must stay small.
LONGEST_BEGINNING = 256


@dataclass(frozen=True, slots=True)
class Early:
    """A packed record of the log's beginning and its time."""

    ts: int
    packed: bytes


def agreed_time(times: Sequence[int], jump_ms: int) -> int | None:
    """The earliest of the times that has another one within `jump_ms` after it; None if no two agree."""
    ordered = sorted(times)
    return next((first for first, second in pairwise(ordered) if second - first <= jump_ms), None)

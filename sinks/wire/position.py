"""The position of a record in its topic."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Sorted by topic, partition, offset. In a file topic: segment number and byte offset in the
    segment.
    """

    topic: str
    partition: int
    offset: int

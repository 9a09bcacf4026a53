"""Where a record stands in its topic."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Ordered by topic, partition, offset. In a file topic the partition is the segment's number and the offset a byte in it."""

    topic: str
    partition: int
    offset: int

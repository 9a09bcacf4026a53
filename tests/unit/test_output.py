"""What the job publishes from the driver: a round after the commands that it names, and a cluster's
records in fold order.
"""

from __future__ import annotations

from dataclasses import dataclass

from streaming.outputs.facts import KINDS
from streaming.outputs.output import publish


@dataclass(frozen=True)
class Row:
    """One of `processor.OUTPUT`."""

    kind: str
    key: str
    value: bytes
    seq: int


@dataclass(frozen=True)
class Noted:
    """A publisher that notes what is asked of it."""

    kind: str
    notes: list[tuple[str, ...]]

    def publish(self, key: str, value: bytes) -> None:
        self.notes.append((self.kind, key, value.decode()))

    def flush(self) -> None:
        self.notes.append((self.kind, "stored"))

    def close(self) -> None:
        """Has nothing open."""


def test_rounds_follow_stored_commands_and_clusters_stay_in_fold_order() -> None:
    notes: list[tuple[str, ...]] = []
    rows = [
        Row("rounds", "d", b"d3", 3),
        Row("rejected", "", b"9", 9),
        *(Row("commands", "c", b"c%d" % number, number) for number in (10, 2)),
    ]
    publish({kind: Noted(kind, notes) for kind in KINDS}, rows)
    assert notes == [
        ("commands", "c", "c2"),
        ("commands", "c", "c10"),
        ("commands", "stored"),
        ("rounds", "d", "d3"),
        ("rounds", "stored"),
        ("rejected", "", "9"),
        ("rejected", "stored"),
    ]

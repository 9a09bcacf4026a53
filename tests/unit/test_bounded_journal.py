"""The executor's journal after a month: each table says by what it is bounded, and neither rows nor
bytes grow with the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest

from sinks.executor.approval_journal import ApprovalJournal
from sinks.executor.guard import KEPT, MoveJournal
from sinks.executor.journal import Journal, Received
from sinks.wire.origin import Position
from strategies.executor.approvals import ApprovedCommand
from strategies.executor.gate_and_breaker import MoveResult
from tests.unit.test_wire_encoding import APPROVAL, COMMAND, PAUSE

DAYS, A_DAY = 30, 12
DAY_MS = 86_400_000
#: What an executor remembers at each of its starts, the longest time.
WEEK_MS = 7 * DAY_MS
REPAIRS = 3


class Bound(NamedTuple):
    """`by`: what bounds the table; `most`: its rows in this month."""

    by: str
    most: int


BOUNDS: Mapping[str, Bound] = {
    "commands": Bound("verdicts of a week, and commands that are not finished", 8 * A_DAY + 1),
    "held": Bound("commands that wait for people, until they expire", A_DAY),
    "approvals": Bound("records of a week, and those without a published answer", 9 * 2),
    "decisions": Bound("decisions of a week", 9),
    "pauses": Bound("clusters", 1),
    "epochs": Bound("clusters on the rounds topic", 1),
    "results": Bound("the newest moves", KEPT),
    "repairs": Bound("repairs of an hour", REPAIRS),
    "unowned": Bound("bundles of the time that they may hold others back, and a week", 10),
}


@dataclass
class Month:
    """What an executor writes: moves, every third of them held first; one plan, one pause, one
    bundle that nobody owns a day; a start every morning.
    """

    journal: Journal
    now_ms: int = 0
    _place: int = 0

    def days(self) -> Iterator[int]:
        for day in range(DAYS):
            self.now_ms = day * DAY_MS
            self.journal.forget(self.now_ms - WEEK_MS)
            for number in range(A_DAY):
                self.now_ms += DAY_MS // A_DAY
                self._move(f"{day}-{number}", held=number % 3 == 0)
            self._decide(day)
            yield day

    def _move(self, id_: str, *, held: bool) -> None:
        self._place += 1
        received = Received(id_, Position("t", 0, self._place), b"x" * 400)
        moves, expires_ms = MoveJournal(self.journal), self.now_ms + 300_000
        if held:
            command = replace(COMMAND, id=id_, expires_at_ms=expires_ms)
            ApprovalJournal(self.journal).hold(received, command)
        self.journal.see_epoch("c", self._place)
        self.journal.intend(received, "a:1", self.now_ms)
        moves.begin_unload(received, 1)
        self.journal.decide(received, "applied", b"y" * 400, self.now_ms)
        for _ in range(3):
            moves.add_result(MoveResult(self.now_ms, failed=True))
            moves.take_repair(self.now_ms, REPAIRS)
        self.journal.publish(received, expires_ms)

    def _decide(self, day: int) -> None:
        approvals, named = ApprovalJournal(self.journal), ApprovedCommand(f"{day}", "0" * 64)
        for given in (
            replace(APPROVAL, id=f"a{day}", plan=f"1.{day}-{'0' * 12}", commands=(named,)),
            replace(PAUSE, id=f"p{day}", cluster="c"),
        ):
            self._place += 1
            place = Position("t", 0, self._place)
            approvals.store(
                replace(given, expires_at_ms=self.now_ms + 300_000),
                place,
                b"",
                believed=True,
                now_ms=self.now_ms,
                answer=("accepted", b"z" * 400),
            )
            approvals.published(given.id, place)
        MoveJournal(self.journal).add_unowned(f"t/ns{day}/0x00000000_0xffffffff", self.now_ms)


def rows(journal: Journal) -> dict[str, int]:
    names = journal.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return {name: journal.rows(f"SELECT count(*) FROM {name}")[0][0] for (name,) in names}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, int], int]]:
    """Rows of each table and bytes on the disk, after each day."""
    with closing(Journal(tmp_path_factory.mktemp("journal"))) as journal:
        journal.rows("PRAGMA synchronous = OFF")  # thousands of changes, and no machine fails
        return [(rows(journal), journal.size_bytes()) for _ in Month(journal).days()]


def test_every_table_says_by_what_it_is_bounded(tmp_path: Path) -> None:
    """A new table fails here until it has a bound."""
    with closing(Journal(tmp_path)) as journal:
        assert rows(journal).keys() == BOUNDS.keys()


@pytest.mark.parametrize("table", BOUNDS)
def test_a_table_stays_within_its_bound(table: str, seen: list[tuple[dict[str, int], int]]) -> None:
    most = max(rows[table] for rows, _ in seen)
    assert most <= BOUNDS[table].most
    assert most > 0 or table == "held", "the month fills every table"


def test_the_file_does_not_grow_with_the_time(seen: list[tuple[dict[str, int], int]]) -> None:
    """Freed pages are used again, and SQLite keeps its write-ahead log short."""
    sizes = [size for _, size in seen]
    assert max(sizes[-5:]) <= 1.05 * max(sizes[9:14])

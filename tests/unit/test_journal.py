"""The executor's journal: what it was told is there after a restart, nobody else can write to it,
and neither rows nor bytes grow with the time.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sinks.executor.held_commands_and_approval_journal import ApprovalJournal
from sinks.executor.journal import KEPT, Journal, MoveJournal, Received, unfinished_commands
from sinks.wire.record_decoding import Position
from strategies.cluster.model import OutcomeStatus
from strategies.errors import SinkError, StateVersionError
from strategies.executor.gate_and_breaker import MoveResult
from strategies.executor.objections_to_approvals import ApprovedCommand
from tests.unit.test_wire_encoding import APPROVAL, COMMAND, PAUSE


def received(id_: str = "id", place: int = 10) -> Received:
    return Received(id_, Position("t", 0, place), b"{}")


def journal(folder: Path) -> closing[Journal]:
    return closing(Journal(folder))


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Journal]:
    with journal(tmp_path) as opened:
        yield opened


def test_a_command_goes_from_open_to_decided_to_published_across_restarts(tmp_path: Path) -> None:
    with journal(tmp_path) as one:
        one.intend(received(), "a:1", 5)
    with journal(tmp_path) as one:
        (entry,) = one.unfinished()
        assert (entry.received, entry.owner) == (received(), "a:1")
        assert (entry.status, entry.outcome) == (None, None)
        one.decide(received(), "applied", b"outcome", 6)
    with journal(tmp_path) as one:
        (entry,) = one.unfinished()
        assert (entry.owner, entry.published) == ("a:1", False)
        assert (entry.status, entry.outcome) == ("applied", b"outcome")
        one.publish(received())
    with journal(tmp_path) as one:
        assert one.unfinished() == []
        same, earlier = one.earlier(received())
        assert same is not None
        assert same.published
        assert earlier is None, "the very same record is no replay"


@pytest.mark.parametrize(
    ("status", "counts", "verdict"),
    [("refused", True, "refused"), ("dry-run", True, None), ("refused", False, None)],
    ids=["a verdict", "a dry run", "a forged record"],
)
def test_the_same_id_at_another_place_is_a_replay_of_a_verdict(
    one: Journal, status: OutcomeStatus, counts: bool, verdict: OutcomeStatus | None
) -> None:
    one.decide(received(), status, b"o", 1, counts=counts)
    assert one.earlier(received(place=99)) == (None, verdict)
    assert one.earlier(received())[0] is not None, "the very same record is known"
    one.intend(received("other"), None, 1)
    assert one.earlier(received("other", 99)) == (None, None)


def test_what_is_unfinished_comes_in_the_order_in_which_it_began(one: Journal) -> None:
    """Of two at the same moment, the one that comes first in the topic."""
    for id_, place, at_ms in (("a", 4, 30), ("b", 3, 20), ("c", 2, 10), ("d", 1, 20)):
        one.intend(received(id_, place), None, at_ms)
    assert [entry.received.id for entry in one.unfinished()] == ["c", "d", "b", "a"]


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_epochs_only_grow_and_a_known_one_writes_nothing(tmp_path: Path) -> None:
    """Every command names one."""
    with journal(tmp_path) as one:
        assert one.newest_epoch("c") == 0
        one.see_epoch("c", 3)
        before = files(tmp_path)
        one.see_epoch("c", 3)
        one.see_epoch("c", 2)
        assert files(tmp_path) == before
    with journal(tmp_path) as one:
        assert (one.newest_epoch("c"), one.newest_epoch("d")) == (3, 0)


class Interrupting:
    """A lock; after its first release another thread has its turn."""

    def __init__(self, other: Callable[[], None]) -> None:
        self._lock, self._others = threading.Lock(), [other]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        while self._others:
            self._others.pop()()


def test_an_older_epoch_never_replaces_a_newer_one_of_another_thread(one: Journal) -> None:
    one._lock = Interrupting(lambda: one.see_epoch("c", 9))  # type: ignore[assignment]
    one.see_epoch("c", 3)
    assert one.newest_epoch("c") == 9


def test_what_is_old_published_and_expired_is_forgotten(one: Journal) -> None:
    one.decide(received("waiting", 0), "applied", b"o", 500)
    entries = {"old": (500, 1_000), "new": (2_000, 0), "good": (500, 2_000), "ever": (500, 2**63)}
    for place, (id_, (at_ms, until_ms)) in enumerate(entries.items(), 1):
        one.decide(received(id_, place), "applied", b"o", at_ms)
        one.publish(received(id_, place), until_ms)
    one.see_epoch("c", 9)
    one.forget(1_500)
    verdicts = [one.earlier(received(id_, 99))[1] for id_ in entries]
    assert verdicts == [None, "applied", "applied", "applied"]
    assert [entry.received.id for entry in one.unfinished()] == ["waiting"]
    assert one.newest_epoch("c") == 9


@pytest.mark.heavy
def test_a_second_executor_is_told_to_stay_away(tmp_path: Path) -> None:
    with journal(tmp_path), pytest.raises(SinkError, match="Another executor uses"):
        Journal(tmp_path)


def test_what_cannot_be_a_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(
        b"no database, and longer than the header of one " * 20
    )
    with pytest.raises(SinkError, match=r"journal\.sqlite cannot be used .*executor\.state"):
        Journal(tmp_path)
    with pytest.raises(SinkError, match="cannot be used"):
        Journal(tmp_path / "journal.sqlite" / "below")


def test_another_version_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(StateVersionError, match="format 9"):
        Journal(tmp_path)


def test_what_is_published_needs_no_room_for_its_bytes(one: Journal, tmp_path: Path) -> None:
    """Of 20 MB. A record that is read again is known by its place, and its verdict stands."""
    all_of_them = [
        Received(f"id-{number}", Position("t", 0, number), b"r" * 100_000) for number in range(100)
    ]
    for large in all_of_them:
        one.decide(large, "applied", b"o" * 100_000, 1)
        one.publish(large, until_ms=10_000)
        one.forget(1)
    assert one.earlier(all_of_them[-1])[0] is not None
    assert one.earlier(Received("id-5", Position("t", 0, 999), b"r"))[1] == "applied"
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 8_000_000


def test_forgetting_writes_nothing_where_nothing_is_old(one: Journal, tmp_path: Path) -> None:
    one.decide(received(), "applied", b"o", 100)
    one.publish(received())
    before = files(tmp_path)
    one.forget(50)
    assert files(tmp_path) == before


def a_journal_of_version_1(folder: Path) -> None:
    """A published verdict, an open intent and an epoch, as that version has written them."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db:
        db.executescript(
            "CREATE TABLE commands (id TEXT NOT NULL, topic TEXT NOT NULL, part INTEGER NOT NULL,"
            " place INTEGER NOT NULL, record BLOB NOT NULL, owner TEXT, status TEXT, outcome BLOB,"
            " published INTEGER NOT NULL DEFAULT 0, at_ms INTEGER NOT NULL,"
            " PRIMARY KEY (id, topic, part, place)) WITHOUT ROWID;"
            "CREATE INDEX unfinished ON commands (published) WHERE published = 0;"
            "CREATE INDEX old ON commands (at_ms);"
            "CREATE TABLE epochs (cluster TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;"
            "INSERT INTO commands VALUES ('done', 't', 0, 1, x'', 'a:1', 'applied', NULL, 1, 5);"
            "INSERT INTO commands VALUES ('open', 't', 0, 2, x'7b7d', 'a:1', NULL, NULL, 0, 6);"
            "INSERT INTO epochs VALUES ('c', 7);"
            "PRAGMA user_version = 1;"
        )


def test_a_journal_of_the_version_before_goes_on_and_a_look_at_it_leaves_it(tmp_path: Path) -> None:
    a_journal_of_version_1(tmp_path)
    assert unfinished_commands(tmp_path) == 1
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    with journal(tmp_path) as one:
        assert one.earlier(received("done", 99))[1] == "applied"
        assert [entry.received.id for entry in one.unfinished()] == ["open"]
        assert one.newest_epoch("c") == 7
        ApprovalJournal(one).hold(received("new"), COMMAND)
        assert ApprovalJournal(one).held_count() == 1
    with journal(tmp_path) as one:
        assert ApprovalJournal(one).held_count() == 1


def test_a_journal_of_version_2_knows_of_no_unloads_yet(tmp_path: Path) -> None:
    with journal(tmp_path) as one:
        one.intend(received("open"), "a:1", 1)
        with one.writing() as db:
            db.execute("ALTER TABLE commands DROP COLUMN unloads")
            for table in ("results", "repairs", "unowned"):
                db.execute(f"DROP TABLE {table}")
            db.execute("PRAGMA user_version = 2")
    with journal(tmp_path) as one:
        moves = MoveJournal(one)
        assert (moves.unloads(received("open")), moves.results()) == (0, [])
        moves.begin_unload(received("open"), 1)
        assert moves.unloads(received("open")) == 1


def test_an_intent_that_is_repeated_forgets_no_unload(one: Journal) -> None:
    one.intend(received(), "a:1", 1)
    MoveJournal(one).begin_unload(received(), 1)
    one.intend(received(), "b:1", 2)
    assert MoveJournal(one).unloads(received()) == 1
    assert [entry.owner for entry in one.unfinished()] == ["b:1"]


@pytest.mark.parametrize(
    ("most", "times_ms", "taken"),
    [
        (2, (0, 1, 2, 3_600_000), [True, True, False, True]),
        (1, (86_400_000, 0, 1), [True, True, False]),
    ],
    ids=["of an hour", "of a clock that was a day ahead"],
)
def test_repairs_are_counted(
    one: Journal, most: int, times_ms: tuple[int, ...], taken: list[bool]
) -> None:
    assert [MoveJournal(one).take_repair(at_ms, most) for at_ms in times_ms] == taken


def test_as_many_results_are_kept_as_a_breaker_may_want(one: Journal) -> None:
    for at_ms in range(300):
        MoveJournal(one).add_result(MoveResult(at_ms, failed=at_ms % 2 == 1))
    kept = MoveJournal(one).results()
    assert (len(kept), kept[0]) == (256, MoveResult(44, failed=False))
    assert kept[-1] == MoveResult(299, failed=True)


def test_a_command_is_held_until_its_outcome_is_published(one: Journal) -> None:
    approvals = ApprovalJournal(one)
    approvals.hold(received(), COMMAND)
    approvals.hold(received(), COMMAND)
    one.intend(received(), "a:1", 1)
    one.decide(received(), "applied", b"o", 2)
    assert approvals.is_held(received())
    one.publish(received())
    assert (approvals.is_held(received()), approvals.held_count()) == (False, 0)


def test_a_change_that_fails_leaves_nothing_behind(one: Journal) -> None:
    with pytest.raises(SinkError), one.writing() as db:
        db.executemany("INSERT INTO epochs VALUES (?, ?)", [("c", 3), ("d", None)])
    assert one.newest_epoch("c") == 0
    one.see_epoch("c", 4)
    assert one.newest_epoch("c") == 4


def test_old_decisions_are_forgotten_and_the_pause_is_not(tmp_path: Path) -> None:
    given = replace(APPROVAL, expires_at_ms=50)
    paused = replace(PAUSE, expires_at_ms=50)
    with journal(tmp_path) as one:
        approvals = ApprovalJournal(one)
        for place, each in enumerate((given, paused)):
            position = Position("a", 0, place)
            approvals.store(
                each, position, b"{}", believed=True, now_ms=1, answer=("accepted", b"a")
            )
            approvals.published(each.id, position)
        one.forget(50)
        assert approvals.is_repeated(given.id, Position("a", 0, 9))
        one.forget(51)
        assert not approvals.is_repeated(given.id, Position("a", 0, 9))
        order = approvals.pause("c")
        assert order is not None
        assert (order.paused, order.by) == (True, "Zoë")


DAYS, A_DAY = 30, 12
DAY_MS = 86_400_000
#: What an executor remembers at each of its starts, the longest time.
WEEK_MS = 7 * DAY_MS
REPAIRS = 3


#: The most rows of each table in this month, and what bounds it.
BOUNDS: Mapping[str, int] = {
    "commands": 8 * A_DAY + 1,  # verdicts of a week, and commands that are not finished
    "held": A_DAY,  # commands that wait for people, until they expire
    "approvals": 9 * 2,  # records of a week, and those without a published answer
    "decisions": 9,  # decisions of a week
    "pauses": 1,  # clusters
    "epochs": 1,  # clusters on the rounds topic
    "results": KEPT,  # the newest moves
    "repairs": REPAIRS,  # repairs of an hour
    "unowned": 10,  # bundles of the time that they may hold others back, and a week
}


@dataclass
class Month:
    """What an executor writes: moves, every third of them held first; each day a start, one plan,
    one pause, one bundle that nobody owns.
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
    with journal(tmp_path_factory.mktemp("journal")) as one:
        one.rows("PRAGMA synchronous = OFF")  # thousands of changes, and no machine fails
        return [(rows(one), one.size_bytes()) for _ in Month(one).days()]


def test_every_table_stays_within_its_bound(seen: list[tuple[dict[str, int], int]]) -> None:
    """A new table fails here until it has a bound."""
    assert seen[0][0].keys() == BOUNDS.keys()
    most = {table: max(rows[table] for rows, _ in seen) for table in BOUNDS}
    assert [table for table in BOUNDS if most[table] > BOUNDS[table]] == []
    assert [table for table in BOUNDS if not most[table]] == ["held"], "the month fills the others"


def test_the_file_does_not_grow_with_the_time(seen: list[tuple[dict[str, int], int]]) -> None:
    """Freed pages are used again, and SQLite keeps its write-ahead log short."""
    sizes = [size for _, size in seen]
    assert max(sizes[-5:]) <= 1.05 * max(sizes[9:14])

"""What an executor must not forget, on disk before it goes on: intents, verdicts, newest epochs; of
moves, how often a bundle was unloaded, results, repairs, and bundles without an owner. The tables
of held commands and approvals are here too; held_commands_and_approval_journal.py uses them.

A command goes through three states, after it may have been *held* for an approval. *Open*: it is
about to be carried out, or was when the process died. *Decided*: its outcome is known and may not
be published yet. *Published*: nothing is left to do. After a restart the open ones are looked
after, the decided ones are published, and a command that is read again is known by its id and its
position.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sinks.durable_files import make_folder
from sinks.wire.record_decoding import Position
from strategies.cluster.budget import HOUR_MS
from strategies.cluster.model import OutcomeStatus
from strategies.errors import SinkError, StateVersionError
from strategies.executor.gate_and_breaker import MoveResult

_FILE = "journal.sqlite"
_VERSION = 3
#: Results that are kept, more than any breaker looks at.
KEPT = 256
#: The rows of one record.
AT = "id = ? AND topic = ? AND part = ? AND place = ?"
#: SQLite's integers have 64 bits.
FOREVER_MS = 2**62
#: How long a verdict is remembered after its command has expired. From then on a repetition is
#: refused because it is too late.
REMEMBER_MS = 3_600_000
#: The same at a start, where no command has shown yet whether this machine's clock is right.
REMEMBER_AT_START_MS = 7 * 86_400_000
#: The longest that a bundle without an owner may hold back others.
_LONGEST_HOLD_MS = 86_400_000
_TABLES = """
CREATE TABLE commands (id TEXT NOT NULL, topic TEXT NOT NULL, part INTEGER NOT NULL,
                       place INTEGER NOT NULL, record BLOB NOT NULL, owner TEXT, status TEXT,
                       outcome BLOB, published INTEGER NOT NULL DEFAULT 0, at_ms INTEGER NOT NULL,
                       PRIMARY KEY (id, topic, part, place)) WITHOUT ROWID;
CREATE INDEX unfinished ON commands (published) WHERE published = 0;
CREATE INDEX old ON commands (at_ms);
CREATE TABLE epochs (cluster TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
"""
#: What version 2 has added to version 1. `counts`: whether the verdict is one on the command's id:
#: a forged record takes no command's place.
_SINCE_2 = """
ALTER TABLE commands ADD COLUMN counts INTEGER NOT NULL DEFAULT 1;
CREATE TABLE held (id TEXT NOT NULL, topic TEXT NOT NULL, part INTEGER NOT NULL,
                   place INTEGER NOT NULL, record BLOB NOT NULL, digest TEXT NOT NULL,
                   bundle TEXT NOT NULL, epoch INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL,
                   PRIMARY KEY (id, topic, part, place));
CREATE TABLE approvals (id TEXT NOT NULL, topic TEXT NOT NULL, part INTEGER NOT NULL,
                        place INTEGER NOT NULL, record BLOB NOT NULL, plan TEXT,
                        action TEXT NOT NULL, person TEXT NOT NULL, reason TEXT NOT NULL,
                        believed INTEGER NOT NULL, status TEXT, answer BLOB,
                        published INTEGER NOT NULL DEFAULT 0, at_ms INTEGER NOT NULL,
                        PRIMARY KEY (id, topic, part, place));
CREATE INDEX unanswered ON approvals (published) WHERE published = 0;
CREATE INDEX plans ON approvals (plan);
CREATE TABLE decisions (command TEXT NOT NULL, digest TEXT NOT NULL, action TEXT NOT NULL,
                        person TEXT NOT NULL, reason TEXT NOT NULL, at_ms INTEGER NOT NULL,
                        PRIMARY KEY (command, digest)) WITHOUT ROWID;
CREATE TABLE pauses (cluster TEXT PRIMARY KEY, paused INTEGER NOT NULL, person TEXT NOT NULL,
                     reason TEXT NOT NULL, ts INTEGER NOT NULL) WITHOUT ROWID;
"""
#: What version 3 has added. `unloads`: how often the bundle was, or may have been, unloaded for the
#: command. `results`: of moves that were tried, for the breaker. `repairs`: when bundles were
#: unloaded a second time. `unowned`: bundles that no broker owned after a move.
_SINCE_3 = """
ALTER TABLE commands ADD COLUMN unloads INTEGER NOT NULL DEFAULT 0;
CREATE TABLE results (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, failed INTEGER NOT NULL);
CREATE TABLE repairs (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL);
CREATE TABLE unowned (bundle TEXT PRIMARY KEY, since_ms INTEGER NOT NULL) WITHOUT ROWID;
"""
_ADDED = {0: _TABLES + _SINCE_2 + _SINCE_3, 1: _SINCE_2 + _SINCE_3, 2: _SINCE_3}


class Received(NamedTuple):
    """A command's record: its id, where it stood, its bytes."""

    id: str
    position: Position
    record: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one record. `owner`: who owned the bundle before; `status`, `outcome`: None
    while it is open.
    """

    received: Received
    owner: str | None
    status: OutcomeStatus | None
    outcome: bytes | None
    published: bool


class JournalInUse(SinkError):
    """Another executor holds the folder."""


def unfinished_commands(folder: Path) -> int | None:
    """Number of commands in an unused journal that are open or not published; None without a
    journal. Changes nothing.

    Raises JournalInUse, SinkError, StateVersionError.
    """
    if not (folder / _FILE).exists():
        return None
    with closing(Journal(folder, upgrade=False)) as journal:
        return len(journal.unfinished())


class Journal:
    """Threads may share it; processes may not. Every change is on the disk when its method returns.
    All methods raise SinkError.
    """

    def __init__(self, folder: Path, *, upgrade: bool = True) -> None:
        """Creates the folder. Raises SinkError when another process uses it, StateVersionError for
        a file of a newer version.

        `upgrade`: rewrites a file of an older version, which that version cannot read any more.
        """
        self._file = folder / _FILE
        self._lock = threading.Lock()
        try:
            make_folder(folder)
            self._db = sqlite3.connect(
                self._file, timeout=1.0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            self._open(upgrade)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Closes the database and releases the folder."""
        self._db.close()

    def size_bytes(self) -> int:
        """Size of the database on disk, its write-ahead log included; 0 if it cannot be read."""
        with suppress(OSError):
            return sum(file.stat().st_size for file in self._file.parent.glob(f"{_FILE}*"))
        return 0

    def earlier(self, received: Received) -> tuple[Entry | None, OutcomeStatus | None]:
        """The entry of this very record, and the verdict on the same id from another position (dry
        runs and forged records left out), if there are any.
        """
        entries = self._entries(
            "WHERE id = ? AND (counts OR (topic = ? AND part = ? AND place = ?))",
            received.id,
            *received.position,
        )
        same = next(
            (entry for entry in entries if entry.received.position == received.position), None
        )
        others = [
            entry.status
            for entry in entries
            if entry is not same and entry.status not in (None, "dry-run")
        ]
        return same, others[0] if others else None

    def unfinished(self) -> list[Entry]:
        """Open and decided entries, the oldest first."""
        return self._entries("WHERE published = 0 ORDER BY at_ms, topic, part, place")

    def intend(self, received: Received, owner: str | None, now_ms: int) -> None:
        """The command is about to be carried out; `owner` is where the bundle is now. What is known
        of its unloads stays.
        """
        self.write(
            "INSERT INTO commands (id, topic, part, place, record, owner, at_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET record = excluded.record,"
            " owner = excluded.owner, at_ms = excluded.at_ms",
            (received.id, *received.position, received.record, owner, now_ms),
        )

    def decide(
        self,
        received: Received,
        status: OutcomeStatus,
        outcome: bytes,
        now_ms: int,
        *,
        counts: bool = True,
    ) -> None:
        """The outcome is known. `counts`: whether it is a verdict on the command's id."""
        self.write(
            "INSERT INTO commands (id, topic, part, place, record, status, outcome, "
            "at_ms, counts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET status = excluded.status, outcome = "
            "excluded.outcome, at_ms = excluded.at_ms",
            (received.id, *received.position, received.record, status, outcome, now_ms, counts),
        )

    def publish(self, received: Received, until_ms: int = 0) -> None:
        """The outcome is on its topics. What remains is the verdict, for as long as the command
        could come back: until `until_ms`.

        The bytes are dropped: a record that is read again gets no second outcome. A held command
        is held no longer.
        """
        with self.writing() as db:
            db.execute(
                "UPDATE commands SET published = 1, record = x'', outcome = NULL, at_ms = "
                f"max(at_ms, ?) WHERE {AT}",
                (min(until_ms, FOREVER_MS), received.id, *received.position),
            )
            db.execute(f"DELETE FROM held WHERE {AT}", (received.id, *received.position))

    def newest_epoch(self, cluster: str) -> int:
        """The newest epoch that was seen, 0 if none."""
        found = self.rows("SELECT epoch FROM epochs WHERE cluster = ?", cluster)
        return int(found[0][0]) if found else 0

    def see_epoch(self, cluster: str, epoch: int) -> None:
        """Remembers an epoch if it is newer than what was seen."""
        self.write(
            "INSERT INTO epochs VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = "
            "excluded.epoch WHERE excluded.epoch > epoch",
            (cluster, epoch),
        )

    def forget(self, before_ms: int) -> None:
        """Drops published verdicts, and decisions, whose `at_ms` (decided, or expired if that is
        later) is before, and bundles without an owner that hold nothing back by then; epochs and
        pauses are never dropped: there is one of each cluster.
        """
        with self.writing() as db:
            db.execute("DELETE FROM commands WHERE at_ms < ? AND published = 1", (before_ms,))
            db.execute("DELETE FROM approvals WHERE at_ms < ? AND published = 1", (before_ms,))
            db.execute("DELETE FROM decisions WHERE at_ms < ?", (before_ms,))
            # Of namespaces that get no more commands: others are removed when one is judged.
            db.execute("DELETE FROM unowned WHERE since_ms < ?", (before_ms - _LONGEST_HOLD_MS,))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all its changes are on the disk after it, or none."""
        with self._lock, self._complaining():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def write(self, query: str, values: tuple[object, ...]) -> None:
        """Carries out one statement as a transaction. Raises SinkError."""
        with self.writing() as db:
            db.execute(query, values)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._lock, self._complaining():
            return self._db.execute(query, values).fetchall()

    def _open(self, upgrade: bool) -> None:
        with self._complaining():
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            # One flush of the disk per change, and a lock that ends with the process.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN EXCLUSIVE")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            added = _ADDED.get(version, "") if upgrade else ""
            for statement in added.split(";"):
                self._db.execute(statement)
            if added:
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
            self._db.execute("COMMIT")
        if version not in range(_VERSION + 1):
            raise StateVersionError(
                f"{self._file} was written by another version (format {version}, this one "
                f"reads {_VERSION}): use the version that wrote "
                "it, or name a new folder as executor.state once all commands in it have expired."
            )

    def _entries(self, where: str, *values: object) -> list[Entry]:
        columns = "id, topic, part, place, record, owner, status, outcome, published"
        rows = self.rows(f"SELECT {columns} FROM commands {where}", *values)
        return [_entry(row) for row in rows]

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> SinkError:
        if "locked" in str(error):
            return JournalInUse(
                f"Another executor uses {self._file.parent}: stop it, or give this one a "
                "folder of its own as executor.state."
            )
        return SinkError(
            f"{self._file} cannot be used ({error}); make room, or name a folder as "
            "executor.state that this user may write."
        )


def _entry(
    row: tuple[str, str, int, int, bytes, str | None, str | None, bytes | None, int],
) -> Entry:
    id_, topic, part, place, record, owner, recorded, outcome, published = row
    status = next((known for known in get_args(OutcomeStatus) if known == recorded), None)
    return Entry(
        Received(id_, Position(topic, part, place), record), owner, status, outcome, bool(published)
    )


@dataclass(frozen=True)
class MoveJournal:
    """Threads may share it. Every change is on the disk when its method returns. All methods raise
    SinkError.
    """

    journal: Journal

    def unloads(self, received: Received) -> int:
        """How often the bundle was unloaded for this record, or may have been."""
        query = f"SELECT unloads FROM commands WHERE {AT}"
        found = self.journal.rows(query, received.id, *received.position)
        return int(found[0][0]) if found else 0

    def begin_unload(self, received: Received, number: int) -> None:
        """The bundle is about to be unloaded, for the `number`-th time."""
        self.journal.write(
            f"UPDATE commands SET unloads = ? WHERE {AT}", (number, received.id, *received.position)
        )

    def results(self) -> list[MoveResult]:
        """The results of the newest moves, the oldest first."""
        rows = self.journal.rows("SELECT at_ms, failed FROM results ORDER BY number")
        return [MoveResult(at_ms, bool(failed)) for at_ms, failed in rows]

    def add_result(self, result: MoveResult) -> None:
        """A move was tried."""
        with self.journal.writing() as db:
            db.execute(
                "INSERT INTO results (at_ms, failed) VALUES (?, ?)", (result.at_ms, result.failed)
            )
            db.execute(
                "DELETE FROM results WHERE number <= (SELECT max(number) FROM results) - ?", (KEPT,)
            )

    def take_repair(self, now_ms: int, most: int) -> bool:
        """Takes one of the `most` repairs of an hour; False if there is none left. Those of a clock
        that was far ahead do not count.
        """
        with self.journal.writing() as db:
            db.execute(
                "DELETE FROM repairs WHERE at_ms <= ? OR at_ms > ?",
                (now_ms - HOUR_MS, now_ms + HOUR_MS),
            )
            taken = db.execute("SELECT count(*) FROM repairs").fetchone()[0]
            if taken < most:
                db.execute("INSERT INTO repairs (at_ms) VALUES (?)", (now_ms,))
            return bool(taken < most)

    def unowned(self, namespace: str) -> list[tuple[str, int]]:
        """Bundles of a namespace without an owner after a move; since when, in ms since 1970."""
        rows = self.journal.rows("SELECT bundle, since_ms FROM unowned ORDER BY since_ms, bundle")
        return [
            (bundle, since_ms)
            for bundle, since_ms in rows
            if bundle.rpartition("/")[0] == namespace
        ]

    def add_unowned(self, bundle: str, since_ms: int) -> None:
        """No broker owns this bundle, which had clients."""
        self.journal.write("INSERT OR REPLACE INTO unowned VALUES (?, ?)", (bundle, since_ms))

    def remove_unowned(self, bundle: str) -> None:
        """It is owned, or no longer waited for."""
        self.journal.write("DELETE FROM unowned WHERE bundle = ?", (bundle,))

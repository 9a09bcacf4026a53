"""What an executor must not forget, on disk before it goes on: intents, verdicts, newest epochs.

A command goes through three states. *Open*: it is about to be carried out, or was when the process
died. *Decided*: its outcome is known and may not be published yet. *Published*: nothing is left to
do. After a restart the open ones are looked after, the decided ones are published, and a command
that is read again is known by its id and its position.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

from sinks.wire.position import Position
from strategies.errors import SinkError, StateVersionError
from strategies.model import OutcomeStatus

_FILE = "journal.sqlite"
_VERSION = 1
#: SQLite's integers have 64 bits.
_FOREVER_MS = 2**62
_TABLES = """
CREATE TABLE commands (id TEXT NOT NULL, topic TEXT NOT NULL, part INTEGER NOT NULL,
                       place INTEGER NOT NULL, record BLOB NOT NULL, owner TEXT, status TEXT,
                       outcome BLOB, published INTEGER NOT NULL DEFAULT 0, at_ms INTEGER NOT NULL,
                       PRIMARY KEY (id, topic, part, place)) WITHOUT ROWID;
CREATE INDEX unfinished ON commands (published) WHERE published = 0;
CREATE INDEX old ON commands (at_ms);
CREATE TABLE epochs (cluster TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
"""


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
    at_ms: int


class JournalInUse(SinkError):
    """Another executor holds the folder."""


def unfinished_commands(folder: Path) -> int | None:
    """Number of commands in an unused journal that are open or not published; None without a
    journal. Changes nothing.

    Raises JournalInUse, SinkError, StateVersionError.
    """
    if not (folder / _FILE).exists():
        return None
    with closing(Journal(folder)) as journal:
        return len(journal.unfinished())


class Journal:
    """Threads may share it; processes may not. Every change is on the disk when its method returns.
    All methods raise SinkError.
    """

    def __init__(self, folder: Path) -> None:
        """Creates the folder. Raises SinkError when another process uses it, StateVersionError for
        a file of another version.
        """
        self._file = folder / _FILE
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self._file, timeout=1.0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            self._open()
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
        runs left out), if there are any.
        """
        entries = self._entries("WHERE id = ?", received.id)
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
        """The command is about to be carried out; `owner` is where the bundle is now."""
        with self._writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO commands (id, topic, part, place, record, owner, "
                "at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (received.id, *received.position, received.record, owner, now_ms),
            )

    def decide(
        self, received: Received, status: OutcomeStatus, outcome: bytes, now_ms: int
    ) -> None:
        """The outcome is known."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO commands (id, topic, part, place, record, status, outcome, "
                "at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET status = excluded.status, outcome = "
                "excluded.outcome, at_ms = excluded.at_ms",
                (received.id, *received.position, received.record, status, outcome, now_ms),
            )

    def publish(self, received: Received, until_ms: int = 0) -> None:
        """The outcome is on its topics. What remains is the verdict, for as long as the command
        could come back: until `until_ms`.

        The bytes are dropped: a record that is read again gets no second outcome.
        """
        with self._writing() as db:
            db.execute(
                "UPDATE commands SET published = 1, record = x'', outcome = NULL, at_ms = "
                "max(at_ms, ?)"
                " WHERE id = ? AND topic = ? AND part = ? AND place = ?",
                (min(until_ms, _FOREVER_MS), received.id, *received.position),
            )

    def newest_epoch(self, cluster: str) -> int:
        """The newest epoch that was seen, 0 if none."""
        with self._lock, self._complaining():
            row = self._db.execute(
                "SELECT epoch FROM epochs WHERE cluster = ?", (cluster,)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def see_epoch(self, cluster: str, epoch: int) -> None:
        """Remembers an epoch if it is newer than what was seen."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO epochs VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = "
                "excluded.epoch WHERE excluded.epoch > epoch",
                (cluster, epoch),
            )

    def forget(self, before_ms: int) -> None:
        """Drops published verdicts whose `at_ms` (decided, or expired if that is later) is before;
        epochs are never dropped.
        """
        with self._writing() as db:
            db.execute("DELETE FROM commands WHERE at_ms < ? AND published = 1", (before_ms,))

    def _open(self) -> None:
        with self._complaining():
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            # One flush of the disk per change, and a lock that ends with the process.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN EXCLUSIVE")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
            self._db.execute("COMMIT")
        if version not in (0, _VERSION):
            raise StateVersionError(
                f"{self._file} was written by another version (format {version}, this one "
                f"reads {_VERSION}): use the version that wrote "
                "it, or name a new folder as executor.state once all commands in it have expired."
            )

    def _entries(self, where: str, *values: object) -> list[Entry]:
        columns = "id, topic, part, place, record, owner, status, outcome, published, at_ms"
        with self._lock, self._complaining():
            rows = self._db.execute(f"SELECT {columns} FROM commands {where}", values).fetchall()
        return [_entry(row) for row in rows]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._complaining():
            yield self._db

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
    row: tuple[str, str, int, int, bytes, str | None, str | None, bytes | None, int, int],
) -> Entry:
    id_, topic, part, place, record, owner, recorded, outcome, published, at_ms = row
    status = next((known for known in get_args(OutcomeStatus) if known == recorded), None)
    return Entry(
        Received(id_, Position(topic, part, place), record),
        owner,
        status,
        outcome,
        bool(published),
        at_ms,
    )

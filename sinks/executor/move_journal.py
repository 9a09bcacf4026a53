"""The part of the journal about moves: how often a bundle was unloaded, results of moves, repairs
of the last hour, and bundles without an owner.
"""

from dataclasses import dataclass

from sinks.executor.journal import AT, Journal, Received
from strategies.cluster.budget import HOUR_MS
from strategies.executor.gate_and_breaker import MoveResult

#: Results that are kept, more than any breaker looks at.
KEPT = 256


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
        with self.journal.writing() as db:
            db.execute(
                f"UPDATE commands SET unloads = ? WHERE {AT}",
                (number, received.id, *received.position),
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
                "DELETE FROM results WHERE number <= (SELECT max(number) FROM results) - ?",
                (KEPT,),
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
        with self.journal.writing() as db:
            db.execute("INSERT OR REPLACE INTO unowned VALUES (?, ?)", (bundle, since_ms))

    def remove_unowned(self, bundle: str) -> None:
        """It is owned, or no longer waited for."""
        with self.journal.writing() as db:
            db.execute("DELETE FROM unowned WHERE bundle = ?", (bundle,))

"""Commands that are held for a person's decision, and approval records: which held commands come
next, the answer to each record, who pauses the executor, and the part of the journal for all these.

A record is stored with its answer, and with what follows from it, before its position is committed.
Answers are published from the journal, and stay there until they are on OUTCOMES.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sinks.executor.journal import AT, FOREVER_MS, Journal, Received
from sinks.executor.settings import ExecutorConfig
from sinks.topics.open_topics import Consumer, TopicRecord, check_complete
from sinks.wire.operator_records import command_digest, encode_approval_outcome
from sinks.wire.record_decoding import Position, decode_approval, decode_approval_outcome
from strategies.cluster.model import Command, OutcomeStatus
from strategies.errors import WireError
from strategies.executor.admission import Objection, Signature
from strategies.executor.objections_to_approvals import (
    Approval,
    ApprovalFacts,
    ApprovalOutcome,
    ApprovalStatus,
    ApprovedCommand,
    PauseOrder,
    PlanRuling,
    WaitingCommand,
    approval_objection,
    ruling_on,
)


@dataclass(frozen=True, slots=True)
class HeldCommand:
    """A command that is held, without its bytes."""

    id: str
    position: Position
    bundle: str
    waiting: WaitingCommand


class ApprovalJournal:
    """Shares the journal's file, and its lock: threads may share it. All methods raise
    SinkError.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def hold(self, received: Received, command: Command) -> None:
        """The command waits for a decision; a second call for the same record changes nothing."""
        self._journal.write(
            "INSERT OR IGNORE INTO held (id, topic, part, place, record, digest, bundle, "
            "epoch, expires_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                received.id,
                *received.position,
                received.record,
                command_digest(received.record),
                command.bundle,
                command.epoch,
                command.expires_at_ms,
            ),
        )

    def is_held(self, received: Received) -> bool:
        """True if this very record is held."""
        query = f"SELECT 1 FROM held WHERE {AT}"
        return bool(self._journal.rows(query, received.id, *received.position))

    def held_count(self) -> int:
        """Number of held commands."""
        return int(self._journal.rows("SELECT count(*) FROM held")[0][0])

    def held(self) -> list[HeldCommand]:
        """All held commands, in the order of their arrival."""
        rows = self._journal.rows(
            "SELECT held.id, topic, part, place, bundle, epoch, expires_at_ms, action, person, "
            "reason, EXISTS (SELECT 1 FROM decisions AS others WHERE others.command = held.id AND "
            "others.action = 'approve' AND others.digest <> held.digest) FROM held LEFT JOIN "
            "decisions ON decisions.command = held.id AND decisions.digest = held.digest ORDER BY "
            "held.rowid"
        )
        return [_held(row) for row in rows]

    def received(self, held: HeldCommand) -> Received:
        """The record of a held command."""
        ((record,),) = self._journal.rows(
            f"SELECT record FROM held WHERE {AT}", held.id, *held.position
        )
        return Received(held.id, held.position, record)

    def knows(self, id_: str, position: Position) -> bool:
        """True if this very approval record is stored."""
        return bool(self._journal.rows(f"SELECT 1 FROM approvals WHERE {AT}", id_, *position))

    def is_repeated(self, id_: str, position: Position) -> bool:
        """True if a signed record with this id is stored from another position."""
        query = (
            "SELECT 1 FROM approvals WHERE id = ? AND believed AND NOT (topic = ? AND part = ? AND "
            "place = ?)"
        )
        return bool(self._journal.rows(query, id_, *position))

    def earlier(self, plan: str | None, position: Position) -> PlanRuling | None:
        """The first decision on a plan from another position that is accepted or not answered
        yet.
        """
        found = self._journal.rows(
            "SELECT action, person, reason FROM approvals WHERE plan = ? AND believed AND (status "
            "IS NULL OR status = 'accepted') AND NOT (topic = ? AND part = ? AND place = ?) ORDER "
            "BY rowid LIMIT 1",
            plan,
            *position,
        )
        return PlanRuling(*found[0]) if found else None

    def waiting(self, commands: Iterable[ApprovedCommand], now_ms: int) -> int:
        """Number of these commands, by id, that are held, have not expired and are not decided. One
        with other bytes counts: the decision on the plan refuses it.
        """
        query = (
            "SELECT 1 FROM held WHERE id = ? AND expires_at_ms > ? AND NOT EXISTS (SELECT 1 FROM "
            "decisions WHERE command = held.id AND digest = held.digest)"
        )
        return sum(bool(self._journal.rows(query, one.id, now_ms)) for one in commands)

    def answered(
        self, commands: Iterable[ApprovedCommand], now_ms: int
    ) -> Mapping[OutcomeStatus, int]:
        """Statuses of those of these commands that cannot be decided any more; a held one that is
        late has expired.
        """
        found: Counter[OutcomeStatus] = Counter()
        for one in commands:
            rows = self._journal.rows(
                "SELECT status FROM commands WHERE id = ? AND counts AND status IS NOT NULL", one.id
            ) or self._journal.rows(
                "SELECT 'expired' FROM held WHERE id = ? AND digest = ? AND expires_at_ms <= ?",
                *one,
                now_ms,
            )
            found.update(status for (status,) in rows[:1])
        return found

    def store(
        self,
        approval: Approval,
        position: Position,
        record: bytes,
        *,
        believed: bool,
        now_ms: int,
        answer: tuple[ApprovalStatus, bytes] | None,
    ) -> None:
        """Stores a record, and what follows from it if the answer is `accepted`. `answer`: None
        while none of its commands has arrived.
        """
        until_ms = min(max(now_ms, approval.expires_at_ms if believed else 0), FOREVER_MS)
        status, encoded = (None, None) if answer is None else answer
        with self._journal.writing() as db:
            db.execute(
                "INSERT INTO approvals (id, topic, part, place, record, plan, action, person, "
                "reason, believed, status, answer, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                "?, ?) ON CONFLICT DO UPDATE SET record = excluded.record, status = "
                "excluded.status, answer = excluded.answer",
                (
                    approval.id,
                    *position,
                    record if answer is None else b"",
                    approval.plan,
                    approval.action,
                    approval.by,
                    approval.reason,
                    believed,
                    status,
                    encoded,
                    until_ms,
                ),
            )
            if status == "accepted":
                _take_effect(db, approval, until_ms)

    def pending(self) -> list[tuple[Position, bytes]]:
        """Approval records without an answer, the oldest first."""
        rows = self._journal.rows(
            "SELECT topic, part, place, record FROM approvals WHERE published = 0 AND status IS "
            "NULL ORDER BY rowid"
        )
        return [(Position(*place), record) for *place, record in rows]

    def unpublished(self) -> list[tuple[str, Position, bytes]]:
        """Answers that may not be on OUTCOMES yet: id and position of the record, the answer."""
        rows = self._journal.rows(
            "SELECT id, topic, part, place, answer FROM approvals WHERE published = 0 AND answer "
            "IS NOT NULL ORDER BY rowid"
        )
        return [(id_, Position(*place), answer) for id_, *place, answer in rows]

    def published(self, id_: str, position: Position) -> None:
        """The answer is on OUTCOMES."""
        self._journal.write(
            f"UPDATE approvals SET published = 1, answer = NULL WHERE {AT}", (id_, *position)
        )

    def pause(self, cluster: str) -> PauseOrder | None:
        """The newest accepted pause or resume of a cluster."""
        rows = self._journal.rows(
            "SELECT paused, person, reason, ts FROM pauses WHERE cluster = ?", cluster
        )
        return PauseOrder(bool(rows[0][0]), *rows[0][1:]) if rows else None


def _take_effect(db: sqlite3.Connection, approval: Approval, until_ms: int) -> None:
    if approval.is_about_plan:
        db.executemany(
            "INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?, ?, ?)",
            [
                (*one, approval.action, approval.by, approval.reason, until_ms)
                for one in approval.commands
            ],
        )
        return
    db.execute(
        "INSERT OR REPLACE INTO pauses VALUES (?, ?, ?, ?, ?)",
        (approval.cluster, approval.action == "pause", approval.by, approval.reason, approval.ts),
    )


def _held(row: tuple[object, ...]) -> HeldCommand:
    id_, topic, part, place, bundle, epoch, expires_at_ms, action, person, reason, others = row
    ruling = None if action is None else PlanRuling(action, person, reason)  # type: ignore[arg-type]
    return HeldCommand(
        id_,  # type: ignore[arg-type]
        Position(topic, part, place),  # type: ignore[arg-type]
        bundle,  # type: ignore[arg-type]
        WaitingCommand(epoch, expires_at_ms, ruling, bool(others)),  # type: ignore[arg-type]
    )


class DueCommand(NamedTuple):
    """A held command whose time has come; `objection`: None if it is approved, and judged like any
    other.
    """

    held: HeldCommand
    objection: Objection | None


def next_held(
    config: ExecutorConfig, journal: Journal, approvals: ApprovalJournal, now_ms: int
) -> list[DueCommand]:
    """The next held commands to work on, as many as may be worked on at once, none of them about a
    bundle that another one is about. Raises SinkError.
    """
    wave: list[DueCommand] = []
    bundles: set[str] = set()
    waiting = approvals.held()
    newest = journal.newest_epoch(config.cluster) if waiting and config.approval_required else 0
    for held in waiting:
        ruling = ruling_on(held.waiting, now_ms, newest) if config.approval_required else "approved"
        if ruling == "waits" or held.bundle in bundles:
            continue
        wave.append(DueCommand(held, None if ruling == "approved" else ruling))
        bundles.add(held.bundle)
        if len(wave) == config.at_once:
            break
    return wave


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that is no command, or no approval, and why."""

    record: TopicRecord
    error: WireError


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to an approval record, and the record's position."""

    position: Position
    outcome: ApprovalOutcome
    encoded: bytes


@dataclass(frozen=True)
class ApprovalIntake:
    """One topic, one thread. `records`: None without an approvals key; then no method does
    anything. All methods raise SinkError.
    """

    config: ExecutorConfig
    records: Consumer | None
    journal: ApprovalJournal
    clock_ms: Callable[[], int]

    def learn(self, refuse: Callable[[RefusedRecord], None]) -> None:
        """Reads what is new on the topic, and decides on records whose commands have arrived by
        now. `refuse` publishes a record that is no approval.
        """
        if self.records is None:
            return
        while records := self.records.poll(100, 0, 8 * 2**20):
            for record in records:
                try:
                    check_complete(record, self.config.limits, "approval")
                    self._take(record, decode_approval(record.value))
                except WireError as error:
                    refuse(RefusedRecord(record, error))
                self.records.commit(record)
        for position, value in self.journal.pending():
            self._store(decode_approval(value), position, value)

    def unpublished(self) -> Iterator[Answered]:
        """The answers that may not be on OUTCOMES yet."""
        for _, position, encoded in self.journal.unpublished():
            yield Answered(position, decode_approval_outcome(encoded), encoded)

    def _take(self, record: TopicRecord, approval: Approval) -> None:
        mine = approval.cluster == self.config.cluster
        if mine and not self.journal.knows(approval.id, record.position):
            self._store(approval, record.position, record.value)

    def _store(self, approval: Approval, position: Position, record: bytes) -> None:
        now_ms = self.clock_ms()
        facts = self._facts(approval, position, record, now_ms)
        self.journal.store(
            approval,
            position,
            record,
            believed=facts.signature == "signed",
            now_ms=now_ms,
            answer=_answer(approval, facts),
        )

    def _facts(
        self, approval: Approval, position: Position, record: bytes, now_ms: int
    ) -> ApprovalFacts:
        key = self.config.approvals_key
        signature: Signature = "unchecked" if key is None else key.check(record)
        if signature != "signed":
            # A forged record may name a hundred thousand commands: none of them is looked up.
            return ApprovalFacts(now_ms, signature)
        return ApprovalFacts(
            now_ms,
            signature,
            self.journal.is_repeated(approval.id, position),
            self.config.approval_required,
            self.journal.earlier(approval.plan, position),
            self.journal.waiting(approval.commands, now_ms),
            self.journal.answered(approval.commands, now_ms),
            self.journal.pause(approval.cluster),
        )


def _answer(approval: Approval, facts: ApprovalFacts) -> tuple[ApprovalStatus, bytes] | None:
    """The answer, encoded; None while no command of the plan has arrived."""
    objection = approval_objection(approval, facts)
    if objection is None and approval.is_about_plan and facts.waiting == 0:
        return None
    status: ApprovalStatus = "accepted" if objection is None else objection.status
    outcome = ApprovalOutcome(
        approval.id,
        approval.cluster,
        approval.action,
        approval.plan,
        approval.by,
        status,
        None if objection is None else str(objection),
        facts.now_ms,
    )
    return status, encode_approval_outcome(outcome)

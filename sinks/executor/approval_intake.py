"""Takes approval records in: each is stored with its answer, and with what follows from it, before
its position is committed. Answers are published from the journal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sinks.executor.approval_journal import Answered, ApprovalJournal, RefusedRecord
from sinks.executor.settings import ExecutorConfig
from sinks.topics.open_topics import Consumer, TopicRecord
from sinks.topics.skip_unreadable import check_complete
from sinks.wire.operator_records import encode_approval_outcome
from sinks.wire.record_decoding import decode_approval, decode_approval_outcome
from sinks.wire.record_origin import Position
from strategies.errors import WireError
from strategies.executor.admission import Signature
from strategies.executor.approvals_and_pauses import (
    Approval,
    ApprovalFacts,
    ApprovalOutcome,
    ApprovalStatus,
    approval_objection,
)


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

"""Publishes what came of records: outcomes of commands, answers to approvals, and records that are
neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sinks.executor.approval_intake import Answered
from sinks.executor.approval_journal import ApprovalJournal
from sinks.executor.intake import HeldBack, RefusedRecord, Task
from sinks.executor.journal import Journal
from sinks.topics.access import Publisher
from sinks.wire.codec import cluster_of
from sinks.wire.encoding import encode_outcome, encode_outcome_telemetry
from sinks.wire.origin import Origin, encode_rejected
from strategies.cluster.model import Outcome


@dataclass(frozen=True, slots=True)
class Done:
    """A command and its outcome."""

    task: Task
    outcome: Outcome


@dataclass(frozen=True)
class ResultPublisher:
    """`on_outcome` is called with every outcome after it was published, `on_refused` with every
    record that is no command or approval, `on_answer` with every answer to an approval, and
    `on_held` with every command that waits for one. Raises SinkError.
    """

    outcomes: Publisher
    telemetry: Publisher
    rejected: Publisher
    journal: Journal
    approvals: ApprovalJournal
    on_outcome: Callable[[Done], None]
    on_refused: Callable[[RefusedRecord], None] = lambda _: None
    on_answer: Callable[[Answered], None] = lambda _: None
    on_held: Callable[[HeldBack], None] = lambda _: None

    def publish(self, result: Done | HeldBack | Answered | RefusedRecord | None) -> None:
        """Returns when the result is on its topics, or in the journal if the command is held; None
        is the result of a record that is left to others.
        """
        match result:
            case HeldBack(task):
                self.approvals.hold(task.received, task.command)
                self.on_held(result)
            case Answered(position, outcome, encoded):
                # Not to TELEMETRY: the engine decides from outcomes of commands only.
                self.outcomes.publish(outcome.cluster, encoded)
                self.outcomes.flush()
                self.approvals.published(outcome.approval_id, position)
                self.on_answer(result)
            case Done(task, outcome):
                self.outcomes.publish(outcome.cluster, encode_outcome(outcome))
                self.telemetry.publish(outcome.cluster, encode_outcome_telemetry(outcome))
                self.outcomes.flush()
                self.telemetry.flush()
                self.journal.publish(
                    task.received, task.command.expires_at_ms if task.believed else 0
                )
                self.on_outcome(result)
            case RefusedRecord(record, error):
                cluster = cluster_of(record.value)
                origin = Origin(record.position, record.value, record.size)
                self.rejected.publish(cluster, encode_rejected(error, origin, cluster))
                self.rejected.flush()
                self.on_refused(result)

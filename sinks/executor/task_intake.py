"""Tasks: records of the control topic become tasks, in waves whose commands are about different
bundles, and what came of records is published. Rounds announce newer epochs.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from sinks.executor.held_commands_and_approval_journal import (
    Answered,
    ApprovalJournal,
    DueCommand,
    RefusedRecord,
)
from sinks.executor.journal import REMEMBER_AT_START_MS, REMEMBER_MS, Entry, Journal, Received
from sinks.executor.settings import ExecutorConfig
from sinks.topics.epochs import epochs_in
from sinks.topics.open_topics import Consumer, Publisher, TopicRecord, check_complete
from sinks.wire.event_to_topic_rows import encode_rejected
from sinks.wire.record_decoding import Origin, cluster_of, read_command
from sinks.wire.record_encoding import encode_outcome, encode_outcome_telemetry
from strategies.cluster.model import Command, Outcome, OutcomeStatus
from strategies.errors import WireError
from strategies.executor.admission import Objection, Signature

#: Signatures of commands and rounds whose times and epochs count.
_BELIEVED: frozenset[Signature] = frozenset({"signed", "unchecked"})
#: Bytes of the rounds topic that are in memory at a time.
_ROUNDS_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Task:
    """A command to decide on.

    `believed`: whether its times and its epoch count. `earlier`: the verdict on the same id from
    another position. `entry`: what the journal has of this very record, whose outcome is not
    published yet. `approved`: it needs no approval, or has one; `denied`: what the approvals object
    to.
    """

    received: Received
    command: Command
    signature: Signature
    believed: bool
    earlier: OutcomeStatus | None = None
    entry: Entry | None = None
    approved: bool = True
    denied: Objection | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A command that waits for the approval of its plan."""

    task: Task


class Arrival(NamedTuple):
    """A record and what it holds: a task, no command at all, or (None) nothing to do for this
    executor.
    """

    record: TopicRecord
    content: Task | RefusedRecord | None


@dataclass(frozen=True)
class ExecutorTopics:
    """The control topic, the rounds and the approvals to read (None: the executor has no key for
    these), and where outcomes and unreadable records go.
    """

    commands: Consumer
    rounds: Consumer
    outcomes: Publisher
    telemetry: Publisher
    rejected: Publisher
    approvals: Consumer | None = None


@dataclass
class Intake:
    """Reads both topics for one thread. All methods raise SinkError."""

    config: ExecutorConfig
    topics: ExecutorTopics
    journal: Journal
    approvals: ApprovalJournal
    clock_ms: Callable[[], int]
    _waiting: deque[TopicRecord] = field(default_factory=deque)
    _issued_ms: int = 0

    def unfinished(self) -> Iterator[Task]:
        """The tasks that the last process left open or unpublished, the oldest first."""
        for entry in self.journal.unfinished():
            yield self._task(entry.received, read_command(entry.received.record), entry=entry)

    def next_wave(self, timeout_s: float) -> list[Arrival]:
        """The next records, as many as may be worked on at once, none of them about a bundle that
        another one is about.
        """
        free = self.config.at_once - len(self._waiting)
        if free > 0:
            self._waiting.extend(self.topics.commands.poll(free, 0 if self._waiting else timeout_s))
        wave: list[TopicRecord] = []
        subjects: set[str] = set()
        while self._waiting and (subject := _bundle_of(self._waiting[0].value)) not in subjects:
            wave.append(self._waiting.popleft())
            subjects |= {subject} if subject else set()
        return [Arrival(record, self._content(record)) for record in wave]

    def of_held(self, due: DueCommand) -> Task:
        """The task of a held command."""
        received = self.approvals.received(due.held)
        same, earlier = self.journal.earlier(received)
        task = self._task(received, read_command(received.record), earlier=earlier, entry=same)
        return replace(task, denied=due.objection)

    def learn_epochs(self) -> None:
        """A new job announces its epoch with its first round, before it has any command to give.
        With a key, only a signed one counts.
        """
        while records := self.topics.rounds.poll(1_000, 0, _ROUNDS_BYTES):
            newest: dict[str, int] = {}
            for seen in epochs_in(
                record.value for record in records if self._signature(record.value) in _BELIEVED
            ):
                newest[seen.cluster] = max(seen.epoch, newest.get(seen.cluster, 0))
            for cluster, epoch in newest.items():
                self.journal.see_epoch(cluster, epoch)
            self.topics.rounds.commit(records[-1])

    def forget_at_start(self) -> None:
        """Drops verdicts on commands that expired very long ago."""
        self.journal.forget(self.clock_ms() - REMEMBER_AT_START_MS)

    def forget(self) -> None:
        """Drops verdicts on commands that expired long ago, both by this machine's clock and by the
        times of believed commands.

        A clock that is ahead by mistake does not make a command unknown that may still be carried
        out.
        """
        self.journal.forget(min(self.clock_ms(), self._issued_ms) - REMEMBER_MS)

    def _content(self, record: TopicRecord) -> Task | RefusedRecord | None:
        try:
            check_complete(record, self.config.limits, "command")
            command = read_command(record.value)
        except WireError as error:
            return RefusedRecord(record, error)
        if command.cluster != self.config.cluster:
            return None
        received = Received(command.id, record.position, record.value)
        same, earlier = self.journal.earlier(received)
        if same is None and self.approvals.is_held(received):
            return None
        if same is None:
            task = self._task(received, command, earlier=earlier)
            return replace(task, approved=not self.config.approval_required)
        return None if same.published else self._task(received, command, entry=same)

    def _task(
        self,
        received: Received,
        command: Command,
        *,
        earlier: OutcomeStatus | None = None,
        entry: Entry | None = None,
    ) -> Task:
        """Only a command that may be believed raises the epoch, and only while it has no
        outcome.
        """
        signature = self._signature(received.record)
        believed = signature in _BELIEVED
        if believed and (entry is None or entry.outcome is None):
            self.journal.see_epoch(command.cluster, command.epoch)
            self._issued_ms = max(self._issued_ms, min(command.issued_at_ms, self.clock_ms()))
        return Task(received, command, signature, believed, earlier, entry)

    def _signature(self, record: bytes) -> Signature:
        return "unchecked" if self.config.key is None else self.config.key.check(record)


class _BundleOnly(msgspec.Struct):
    bundle: str = ""


def _bundle_of(value: bytes) -> str:
    try:
        return msgspec.json.decode(value, type=_BundleOnly).bundle
    except (ValueError, RecursionError):
        return ""


@dataclass(frozen=True, slots=True)
class Done:
    """A command and its outcome."""

    task: Task
    outcome: Outcome


#: What comes of a record.
Result = Done | HeldBack | Answered | RefusedRecord


@dataclass(frozen=True)
class ResultPublisher:
    """`on_result` is called with every result after it was published. Raises SinkError."""

    topics: ExecutorTopics
    journal: Journal
    approvals: ApprovalJournal
    on_result: Callable[[Result], None]

    def publish(self, result: Result | None) -> None:
        """Returns when the result is on its topics, or in the journal if the command is held; None
        is the result of a record that is left to others.
        """
        match result:
            case HeldBack(task):
                self.approvals.hold(task.received, task.command)
            case Answered(position, outcome, encoded):
                # Not to TELEMETRY: the engine decides from outcomes of commands only.
                self.topics.outcomes.publish(outcome.cluster, encoded)
                self.topics.outcomes.flush()
                self.approvals.published(outcome.approval_id, position)
            case Done(task, outcome):
                self.topics.outcomes.publish(outcome.cluster, encode_outcome(outcome))
                self.topics.telemetry.publish(outcome.cluster, encode_outcome_telemetry(outcome))
                self.topics.outcomes.flush()
                self.topics.telemetry.flush()
                self.journal.publish(
                    task.received, task.command.expires_at_ms if task.believed else 0
                )
            case RefusedRecord(record, error):
                cluster = cluster_of(record.value)
                origin = Origin(record.position, record.value, record.size)
                self.topics.rejected.publish(cluster, encode_rejected(error, origin, cluster))
                self.topics.rejected.flush()
            case None:
                return
        self.on_result(result)

"""What is known of a command and of its cluster at the moment of asking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sinks.executor.approval_journal import ApprovalJournal
from sinks.executor.intake import Task
from sinks.executor.journal import Journal
from sinks.executor.settings import ExecutorConfig
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.admission import (
    ClusterFacts,
    CommandFacts,
    Objection,
    frozen_objection,
    isolation_of,
    may_be_considered,
)
from strategies.errors import NotFound
from strategies.model import Command


@dataclass(frozen=True)
class Facts:
    """Threads may share it. `frozen`: a sentence about those of the live brokers that are frozen,
    empty when none is.
    """

    config: ExecutorConfig
    journal: Journal
    approvals: ApprovalJournal
    admin: PulsarAdmin
    frozen: Callable[[Sequence[str]], str]
    clock_ms: Callable[[], int]

    def of_command(self, task: Task) -> CommandFacts:
        """What the executor knows without asking the cluster."""
        return CommandFacts(
            self.clock_ms(),
            task.signature,
            self.journal.newest_epoch(task.command.cluster),
            task.earlier,
            self.paused_by_file(),
            self.paused_by_record(),
        )

    def objection_at_arrival(self, task: Task) -> Objection | None:
        """What speaks against holding a command until its plan is approved."""
        return may_be_considered(task.command, self.of_command(task), self.config.rules)

    def of_cluster(self, command: Command) -> ClusterFacts:
        """What the cluster says. Raises AdminError."""
        brokers = self.admin.brokers()
        if frozen := self.frozen(brokers):
            return ClusterFacts(brokers, None, frozen=frozen)
        owner = self.admin.owner(
            command.bundle,
            filter(None, (command.source, command.destination)),
            brokers,
        )
        return ClusterFacts(
            brokers,
            owner,
            exists=owner is not None or self._exists(command.bundle),
            policies=isolation_of(self.admin.isolation_policies()),
        )

    def objection(self, task: Task, brokers: Sequence[str]) -> Objection | None:
        """What speaks against calling Pulsar now, after a command was judged and has waited."""
        return may_be_considered(
            task.command, self.of_command(task), self.config.rules
        ) or frozen_objection(self.frozen(brokers))

    def paused_by_file(self) -> bool:
        """Whether the pause file exists."""
        file = self.config.pause_file
        return file is not None and file.exists()

    def paused_by_record(self) -> str:
        """The person who paused the executor and the reason; empty if no record pauses it."""
        order = self.approvals.pause(self.config.cluster)
        return f"{order.by} ({order.reason})" if order is not None and order.paused else ""

    def _exists(self, bundle: str) -> bool:
        namespace, _, range_ = bundle.rpartition("/")
        try:
            return range_ in self.admin.ranges(namespace)
        except NotFound:
            return False

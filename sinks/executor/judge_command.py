"""The judge: a command and facts become an effect, or the permission to carry the command out.
Nothing acts here.

The rules themselves are in strategies/executor/admission.py. Facts about the cluster cost calls, so
they are asked for only where the command and what the executor knows raise no objection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sinks.executor.held_commands_and_approval_journal import ApprovalJournal
from sinks.executor.journal import Journal
from sinks.executor.move_gate_and_holds import MoveGuard
from sinks.executor.outcome_status_and_reason import (
    Effect,
    code_of_failed_read,
    effect_of_failed_read,
    refusal,
)
from sinks.executor.settings import ExecutorConfig
from sinks.executor.task_intake import Task
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.bundles import namespace_of
from strategies.cluster.model import Command
from strategies.errors import CallFailed, NotFound
from strategies.executor.admission import (
    ClusterFacts,
    CommandFacts,
    Objection,
    frozen_objection,
    isolation_of,
    may_be_applied,
    may_be_considered,
)
from strategies.java.pulsar_versions_and_defaults import PulsarRelease, matches_ids, release_of


@dataclass(frozen=True)
class Facts:
    """Threads may share it. `frozen`: a sentence about those of the live brokers that are frozen,
    empty when none is.
    """

    config: ExecutorConfig
    journal: Journal
    approvals: ApprovalJournal
    admin: PulsarAdmin
    guard: MoveGuard
    frozen: Callable[[Sequence[str]], str]
    clock_ms: Callable[[], int]

    def of_command(self, task: Task) -> CommandFacts:
        """The facts that the executor knows without asking the cluster."""
        return CommandFacts(
            self.clock_ms(),
            task.signature,
            self.journal.newest_epoch(task.command.cluster),
            task.earlier,
            self.paused_by_file(),
            self.paused_by_record(),
            self.guard.breaker.objection(task.command.id) if self.config.apply else None,
        )

    def objection_at_arrival(self, task: Task) -> Objection | None:
        """The objection to holding a command until its plan is approved."""
        return may_be_considered(task.command, self.of_command(task), self.config.rules)

    def of_cluster(self, command: Command) -> ClusterFacts:
        """The facts that the cluster reports. Raises AdminError."""
        if closed := self.closed():
            return ClusterFacts((), None, guard=closed)
        brokers = self.admin.brokers()
        self.guard.gate.saw(brokers)
        if closed := self.closed(command) or self._held_back(command):
            return ClusterFacts(brokers, None, guard=closed)
        if frozen := self.frozen(brokers):
            return ClusterFacts(brokers, None, frozen=frozen)
        owner = self.owner(command, brokers)
        isolation = self.admin.isolation_policies()
        by_id = bool(isolation) and matches_ids(self._release())
        return ClusterFacts(
            brokers,
            owner,
            exists=owner is not None or self._exists(command.bundle),
            policies=isolation_of(isolation, by_id=by_id),
        )

    def owner(self, command: Command, brokers: Sequence[str]) -> str | None:
        """The owner of the bundle now. Raises AdminError."""
        likely = filter(None, (command.source, command.destination))
        return self.admin.owner(command.bundle, likely, brokers)

    def objection(self, task: Task, brokers: Sequence[str]) -> Objection | None:
        """The objection to calling Pulsar now, after a command was judged and has waited. The
        gate is last, because looking for frozen brokers may take long, and first, because it may
        spare that.
        """
        return (
            may_be_considered(task.command, self.of_command(task), self.config.rules)
            or self.closed(task.command)
            or frozen_objection(self.frozen(brokers))
            or self.closed(task.command)
        )

    def objection_to_repair(self, task: Task, owner: str) -> Objection | None:
        """The objection to unloading the bundle once more, from this broker. Raises
        Unauthorized.
        """
        try:
            brokers = self.admin.brokers()
        except CallFailed as error:
            return Objection("refused", code_of_failed_read(error), str(error))
        return self.closed(task.command, owner) or self.objection(task, brokers)

    def closed(self, command: Command | None = None, *more: str) -> Objection | None:
        """The objection of the gate; it has none to dry runs."""
        if not self.config.apply:
            return None
        named = () if command is None else (command.source, command.destination)
        return self.guard.gate.objection([name for name in (*named, *more) if name is not None])

    def paused_by_file(self) -> bool:
        """True if the pause file exists."""
        file = self.config.pause_file
        return file is not None and file.exists()

    def paused_by_record(self) -> str:
        """The person who paused the executor and the reason; empty if no record pauses it."""
        order = self.approvals.pause(self.config.cluster)
        return f"{order.by} ({order.reason})" if order is not None and order.paused else ""

    def _release(self) -> PulsarRelease:
        """The brokers' release. Raises AdminError."""
        return self.config.release or release_of({"a broker": self.admin.version()}).release

    def _held_back(self, command: Command) -> Objection | None:
        """Bundles of the namespace without an owner; splits move nothing."""
        if not (self.config.apply and command.is_move):
            return None
        return self.guard.unowned.objection(namespace_of(command.bundle))

    def _exists(self, bundle: str) -> bool:
        namespace, _, range_ = bundle.rpartition("/")
        try:
            return range_ in self.admin.ranges(namespace)
        except NotFound:
            return False


@dataclass(frozen=True, slots=True)
class Judgement:
    """`effect`: what came of a command that is not carried out; None: it may be. `owner`,
    `brokers`: of the bundle, of the cluster.
    """

    effect: Effect | None
    owner: str | None = None
    brokers: Sequence[str] = ()


def judge(
    command: Command,
    known: CommandFacts,
    look: Callable[[Command], ClusterFacts],
    config: ExecutorConfig,
) -> Judgement:
    """`look` asks the cluster and is called once at most; it raises AdminError. Raises
    Unauthorized.
    """
    objection = may_be_considered(command, known, config.rules)
    if objection is not None:
        return Judgement(refusal(objection, None))
    try:
        cluster = look(command)
    except CallFailed as error:
        return Judgement(effect_of_failed_read(error))
    objection = may_be_applied(command, cluster)
    if objection is not None:
        return Judgement(refusal(objection, cluster.owner), cluster.owner)
    effect = None if config.apply else Effect("dry-run", _intention(command), cluster.owner)
    return Judgement(effect, cluster.owner, cluster.brokers)


def _intention(command: Command) -> str:
    where = "" if command.destination is None else f" to {command.destination}"
    return f"dry-run: would {command.action} {command.bundle} from {command.source}{where}"

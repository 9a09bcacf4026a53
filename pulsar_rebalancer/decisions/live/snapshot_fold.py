"""Folds the records of the topics into what a viewer may see at one moment: the newest rounds of
each cluster, immutable and shared by all viewers, with a bound for everything that is kept.

The order of the records does not matter, and a record that comes twice counts once, so that a topic
may be read again after an outage.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pulsar_rebalancer.decisions.live.packed_rounds import PackedRound, packed
from pulsar_rebalancer.decisions.log import DecisionLog, DecisionRecord, LoggedCommand
from pulsar_rebalancer.decisions.read_status import REPORT_KINDS, TelemetryHead
from strategies.cluster.model import Command, Outcome, Round
from strategies.executor.objections_to_approvals import Approval, ApprovalOutcome

T = TypeVar("T")


class OnceMade:
    """Documents made from a snapshot: each once, by the first viewer who asks for it. One may be
    made from another.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: dict[str, object] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The document of this name."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]


@dataclass(frozen=True)
class LiveDecisions:
    """The decisions about one cluster. `version`: number of the newest change; `rounds`: the newest
    ones, oldest first; `log`: the same with their commands and outcomes, and what people decided.
    """

    version: int = 0
    rounds: tuple[PackedRound, ...] = ()
    log: DecisionLog = DecisionLog(has_outcomes=True)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """One cluster. `version`: number of its newest change; `now_ms`: when this was made;
    `report_ms`: time of the newest report; `rejected`: reason code → number of records.
    """

    cluster: str
    version: int
    now_ms: int
    decisions: LiveDecisions = LiveDecisions()
    report_ms: int | None = None
    sweep: TelemetryHead | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """The state of reading a topic. `records`: number of records read; `error`: why it is not read,
    as a sentence, empty if it is; `since_ms`: time of the first failure; `caught_up`: whether all
    records that existed at the start were read.
    """

    name: str
    uri: str
    records: int = 0
    error: str = ""
    since_ms: int | None = None
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """All clusters by name. `version`: number of the newest change; `topics`: in the order of the
    settings; `paused`: whether the pause file of this machine exists, None = unknown; `starting`:
    the newest line of a job of this machine that starts, otherwise empty; `left_out`: number of
    records of clusters above the limit; `skipped`: number of records that are no round, command or
    outcome.
    """

    version: int = 0
    clusters: Mapping[str, LiveCluster] = field(default_factory=dict)
    topics: tuple[TopicHealth, ...] = ()
    paused: bool | None = None
    starting: str = ""
    left_out: int = 0
    skipped: int = 0


Key = tuple[int, int]
K = TypeVar("K")
V = TypeVar("V")
#: More clusters, commands and outcomes than any installation has: names come from records.
MOST_CLUSTERS, MOST_COMMANDS, MOST_OUTCOMES, MOST_CODES = 200, 100_000, 200_000, 100
#: The newest decisions of people per cluster, and answers to them.
MOST_APPROVALS = 2_000
#: Different outcomes of one command that are kept.
_MOST_ANSWERS = 20


@dataclass(slots=True)
class _ClusterFold:
    """The records of one cluster, by key. `oldest`: no record of an earlier round is kept."""

    rounds: dict[Key, PackedRound] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    outcomes: dict[str, tuple[Outcome, ...]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    approvals: dict[str, Approval] = field(default_factory=dict)
    answers: dict[ApprovalOutcome, None] = field(default_factory=dict)
    report_ms: int | None = None
    sweep: TelemetryHead | None = None
    rejected: Counter[str] = field(default_factory=Counter)
    oldest: Key = (0, 0)
    newest: PackedRound | None = None
    changed: int = 0
    decided: int = 0
    made: LiveCluster | None = None


class LiveFold:
    """The newest `rounds` rounds of each cluster with their commands and outcomes. One thread at a
    time may use it.
    """

    def __init__(self, rounds: int = 500) -> None:
        self._most = rounds
        self._clusters: dict[str, _ClusterFold] = {}
        self.version = 0
        self.left_out = 0

    def add(self, record: DecisionRecord) -> None:
        """Adds a record of any kind."""
        match record:
            case Round():
                self.add_round(record)
            case LoggedCommand():
                self.add_command(record.command, record.digest)
            case Outcome():
                self.add_outcome(record)
            case Approval():
                self.add_approval(record)
            case ApprovalOutcome():
                self.add_answer(record)

    def add_round(self, done: Round) -> None:
        """Adds a round; the oldest one leaves if there are too many. A cluster that decides takes
        the place of the one without news for longest: it may have vanished.
        """
        if done.cluster not in self._clusters and len(self._clusters) >= MOST_CLUSTERS:
            del self._clusters[min(self._clusters, key=lambda one: self._clusters[one].changed)]
        found = self._of(done.cluster)
        key = done.epoch, done.round
        if found is None or key in found.rounds or key < found.oldest:
            return
        self._decided(found)
        small = packed(done, found.newest, found.changed)
        found.rounds[key] = small
        if found.newest is None or key >= found.newest.key:
            found.newest = small
        if len(found.rounds) > self._most:
            self._forget(found)

    def add_command(self, command: Command, digest: str = "") -> None:
        """Adds a command, unless its round is too old; of several with one id the first counts.
        `digest`: SHA-256 (hex) of its record.
        """
        found, key = self._of(command.cluster), (command.epoch, command.round)
        if found is None or command.id in found.commands or key < found.oldest:
            return
        if len(found.commands) >= MOST_COMMANDS:
            self.left_out += 1
            return
        self._decided(found)
        found.commands[command.id], found.digests[command.id] = command, digest
        _touch(found, command)

    def add_outcome(self, outcome: Outcome) -> None:
        """Adds an outcome; of equal ones the first counts."""
        found = self._of(outcome.cluster)
        if found is None:
            return
        given = found.outcomes.get(outcome.command_id, ())
        if outcome in given or len(given) >= _MOST_ANSWERS:
            return
        if outcome.command_id not in found.outcomes and len(found.outcomes) >= MOST_OUTCOMES:
            del found.outcomes[next(iter(found.outcomes))]
        self._decided(found)
        found.outcomes[outcome.command_id] = (*given, outcome)
        command = found.commands.get(outcome.command_id)
        if command is not None:
            _touch(found, command)

    def add_approval(self, approval: Approval) -> None:
        """Adds what a person decided; of several records with one id the first counts."""
        found = self._of(approval.cluster)
        if found is not None and approval.id not in found.approvals:
            self._decided(found)
            _add_bounded(found.approvals, approval.id, approval)

    def add_answer(self, answer: ApprovalOutcome) -> None:
        """Adds an executor's answer to an approval."""
        found = self._of(answer.cluster)
        if found is not None and answer not in found.answers:
            self._decided(found)
            _add_bounded(found.answers, answer, None)

    def add_telemetry(self, head: TelemetryHead) -> None:
        """Notes the time of a broker's report, and the newest collection pass."""
        reports = head.kind in REPORT_KINDS
        if not reports and head.kind != "sweep":
            return
        found = self._of(head.cluster)
        if found is None:
            return
        if reports and (found.report_ms is None or head.ts > found.report_ms):
            found.report_ms = head.ts
            self._changed(found)
        if not reports and (found.sweep is None or head.ts >= found.sweep.ts):
            found.sweep = head
            self._changed(found)

    def add_rejected(self, cluster: str, code: str) -> None:
        """Counts a rejected record; codes above the limit count as `other`."""
        found = self._of(cluster)
        if found is not None:
            known = code in found.rejected or len(found.rejected) < MOST_CODES
            found.rejected[code if known else "other"] += 1
            self._changed(found)

    def tick(self, now_ms: int) -> None:
        """Makes a new state of each cluster with a command that expired since its last one.
        `now_ms`: since the epoch.
        """
        for found in self._clusters.values():
            before_ms = now_ms if found.made is None else found.made.now_ms
            expired = [
                one
                for one in found.commands.values()
                if before_ms < one.expires_at_ms <= now_ms and one.id not in found.outcomes
            ]
            if expired:
                self._decided(found)
            for one in expired:
                _touch(found, one)

    def clusters(self, now_ms: int) -> dict[str, LiveCluster]:
        """The state of each cluster by name; those without a change are the same objects as
        before.
        """
        return {name: _made(name, self._clusters[name], now_ms) for name in sorted(self._clusters)}

    def _of(self, cluster: str) -> _ClusterFold | None:
        found = self._clusters.get(cluster)
        if found is None:
            if len(self._clusters) >= MOST_CLUSTERS:
                self.left_out += 1
                return None
            found = self._clusters[cluster] = _ClusterFold()
        return found

    def _changed(self, found: _ClusterFold) -> None:
        self.version += 1
        found.changed = self.version

    def _decided(self, found: _ClusterFold) -> None:
        self._changed(found)
        found.decided = self.version

    def _forget(self, found: _ClusterFold) -> None:
        """Drops the oldest round and all that is older than the rounds that stay."""
        gone = min(found.rounds)
        del found.rounds[gone]
        found.oldest = min(found.rounds)
        old = [one for one in found.commands.values() if (one.epoch, one.round) < found.oldest]
        for one in old:
            del found.commands[one.id], found.digests[one.id]
            found.outcomes.pop(one.id, None)


def _add_bounded(to: dict[K, V], key: K, value: V) -> None:
    if len(to) >= MOST_APPROVALS:
        del to[next(iter(to))]
    to[key] = value


def _touch(found: _ClusterFold, command: Command) -> None:
    """Marks the round of a command as changed."""
    key = command.epoch, command.round
    if key in found.rounds:
        found.rounds[key] = replace(found.rounds[key], changed=found.changed)


def _made(name: str, found: _ClusterFold, now_ms: int) -> LiveCluster:
    before = found.made
    if before is not None and before.version == found.changed:
        return before
    same = before is not None and before.decisions.version == found.decided
    found.made = LiveCluster(
        name,
        found.changed,
        now_ms,
        decisions=before.decisions if before is not None and same else _decisions(found),
        report_ms=found.report_ms,
        sweep=found.sweep,
        rejected=dict(found.rejected.most_common()),
    )
    return found.made


def _decisions(found: _ClusterFold) -> LiveDecisions:
    rounds = tuple(found.rounds[key] for key in sorted(found.rounds))
    commands = sorted(found.commands.values(), key=lambda one: (one.epoch, one.round))
    log = DecisionLog(
        rounds=tuple(one.round for one in rounds),
        commands=tuple(commands),
        outcomes=tuple(one for given in found.outcomes.values() for one in given),
        has_outcomes=True,
        approvals=tuple(found.approvals.values()),
        answers=tuple(found.answers),
        digests=dict(found.digests),
    )
    return LiveDecisions(found.decided, rounds, log)

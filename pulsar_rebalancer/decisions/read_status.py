"""The present state of each cluster, from the topics: its newest round, reports, commands and
rejected records; and the file that pauses an executor on this machine.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar, get_args

import msgspec

from pulsar_rebalancer.decisions.log import (
    DecisionLog,
    Kind,
    read_topics,
    state_since,
)
from pulsar_rebalancer.decisions.plans import Plan, pauses_of, plans_of
from sinks.executor.settings import ExecutorSettings, pause_file
from sinks.topics.open_topics import records_of
from sinks.topics.topic_settings import Connections
from sinks.wire.contracts.job_output import RejectedRecord
from sinks.wire.raw_broker_reports import RawKind, SourceSettings
from strategies.cluster.model import Command, Outcome, Round
from strategies.executor.objections_to_approvals import PauseOrder
from strategies.settings import RoundSettings

#: Telemetry, rounds and rejected records published within this time are read; files of a file topic
#: as a whole, if they were written within it.
RECENT_MS = 3_600_000
#: A job whose last round is older than this number of intervals makes no progress.
INTERVALS = 3
#: Kinds of telemetry records that report a broker's load.
REPORT_KINDS = frozenset(get_args(RawKind))
T = TypeVar("T", bound=msgspec.Struct)


class TelemetryHead(msgspec.Struct, frozen=True):
    """The fields of a telemetry record that a status needs. `brokers`, `missing`: of a sweep, the
    brokers that answered, and the others with reasons.
    """

    cluster: str
    ts: int
    kind: str = ""
    brokers: list[str] = []
    missing: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """One cluster. `newest`: its newest round, None before the first; `since_ms`: time of the first
    of the `rounds` rounds in a row with the newest one's state, None without a state; `report_ms`:
    time of the newest report; `sweep`: the newest one; `commands`: the newest ones with their
    outcomes, oldest first;
    `rejected`: reason code → number of records; `plans`: those that wait for approval, the newest
    first; `pause`: the newest pause or resume by record.
    """

    cluster: str
    newest: Round | None = None
    since_ms: int | None = None
    rounds: int = 0
    report_ms: int | None = None
    sweep: TelemetryHead | None = None
    commands: tuple[tuple[Command, Outcome | None], ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    plans: tuple[Plan, ...] = ()
    pause: PauseOrder | None = None

    @property
    def undecided(self) -> Plan | None:
        """The newest plan that no person has decided, None without any: it is the state."""
        return next((plan for plan in self.plans if plan.decision is None), None)


@dataclass(frozen=True, slots=True)
class Status:
    """All clusters by name. `rejected`: reason code → number of rejected records that name no
    cluster; `skipped`: one line per kind of record that is no round, command or outcome.
    """

    clusters: tuple[ClusterStatus, ...]
    rejected: Mapping[str, int]
    skipped: tuple[str, ...]

    def of(self, cluster: str) -> "Status":
        """The part of one cluster; empty if no topic mentions it."""
        return replace(self, clusters=tuple(c for c in self.clusters if c.cluster == cluster))


def late_after_ms(newest: Round, rounds: RoundSettings) -> int:
    """The time (ms) from which the newest round is too old to be the present state."""
    return newest.ts + INTERVALS * rounds.interval_ms + rounds.lateness_ms


def read_status(
    connections: Connections, now_ms: int, last: int = 5, *, approval_required: bool = False
) -> Status:
    """Reads the topics; a file topic that does not exist yet is empty. `now_ms`: since the epoch;
    `last`: number of commands per cluster; `approval_required`: whether plans wait for approval.
    Raises SettingsError, SinkError.
    """
    kinds: list[Kind] = ["rounds", "commands", "outcomes"]
    if connections.signing.approvals_key_file:
        kinds.append("approvals")
    log = read_topics(connections, kinds, {})
    plans = plans_of(log, now_ms) if approval_required else []
    waiting = [one for one in plans if one.state == "waiting"]
    pauses = pauses_of(log)
    reports, sweeps = dict[str, int](), dict[str, TelemetryHead]()
    for one in _recent("telemetry", TelemetryHead, connections, now_ms):
        if one.kind in REPORT_KINDS:
            reports[one.cluster] = max(one.ts, reports.get(one.cluster, 0))
        elif one.kind == "sweep" and (
            one.cluster not in sweeps or one.ts >= sweeps[one.cluster].ts
        ):
            sweeps[one.cluster] = one
    rejected: dict[str, Counter[str]] = {}
    for bad in _recent("rejected", RejectedRecord, connections, now_ms):
        rejected.setdefault(bad.cluster or "", Counter())[bad.code] += 1
    clusters = [
        replace(
            _decided(name, log.of(name), last),
            report_ms=reports.get(name),
            sweep=sweeps.get(name),
            rejected=_by_count(rejected.get(name, {})),
            plans=tuple(one for one in waiting if one.cluster == name),
            pause=pauses.get(name),
        )
        for name in sorted({*log.clusters, *reports, *sweeps, *rejected, *pauses} - {""})
    ]
    return Status(tuple(clusters), _by_count(rejected.get("", {})), log.skipped)


def _decided(name: str, log: DecisionLog, last: int) -> ClusterStatus:
    """The status of one cluster by its rounds and commands."""
    rounds = sorted(log.rounds, key=lambda one: (one.epoch, one.round), reverse=True)
    commands = sorted(log.commands, key=lambda one: (one.epoch, one.round))[-last:]
    since_ms, number = state_since(rounds)
    return ClusterStatus(
        name,
        next(iter(rounds), None),
        since_ms,
        number,
        commands=tuple((one, log.outcome_of(one)) for one in commands),
    )


def _recent(
    kind: Literal["telemetry", "rejected"],
    contract: type[T],
    connections: Connections,
    now_ms: int,
) -> Iterator[T]:
    """The records published within `RECENT_MS`, without those that are no such record."""
    topic, decoder = getattr(connections.topics, kind), msgspec.json.Decoder(contract)
    source = connections.source if kind == "telemetry" else SourceSettings()
    since_ms = now_ms - RECENT_MS
    for record in records_of(topic, connections.access, since_ms, source, connections.wire):
        with suppress(ValueError, RecursionError):
            yield decoder.decode(record.value)


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent codes first."""
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


@dataclass(frozen=True, slots=True)
class Pause:
    """The file that pauses an executor on this machine; `exists`: None = this user may not look."""

    file: Path
    exists: bool | None


def pause_of(settings: ExecutorSettings) -> Pause:
    """Looks for the pause file. Raises SettingsError for an invalid executor.state."""
    file = pause_file(settings)
    try:
        return Pause(file, file.exists())
    except OSError:
        return Pause(file, None)

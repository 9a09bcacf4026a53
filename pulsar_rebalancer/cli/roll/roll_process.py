"""The process of a roll: reads rounds, looks at the cluster, asks for the next step, and takes it.
It may be killed at any point; another one goes on (decision 0242). The restart command of a broker
runs beside it.

A look takes seconds at most, also where brokers do not answer; what is not seen is no evidence. It
also finds why the moves of a roll wait outside of rounds: a plan that a person has to approve.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pulsar_rebalancer.cli.intent_session import IntentSession, without_durations
from pulsar_rebalancer.decisions.intents import FollowedTopic
from pulsar_rebalancer.decisions.plans import plans_of, read_plans
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings
from sinks.pulsar_api.frozen_brokers import NONE, FreezeWatch, probing
from sinks.topics.open_topics import check_read
from sinks.topics.server_outages import RetryBackoff
from sinks.wire.contracts.execution import LONGEST_REASON
from sinks.wire.record_decoding import decode_answer
from strategies.cluster.intent_records_and_states import Intent, RollPhase
from strategies.cluster.model import Outcome, Round
from strategies.errors import AdminError, RebalancerError, SinkError, Unauthorized, WireError
from strategies.roll.next_step import next_step
from strategies.roll.roll_state_and_evidence import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    Observation,
    RollState,
    RollStep,
    RunRestart,
    WriteRecord,
)

#: Pause between two looks, and after which the same wait is reported again (s).
LOOK_S, _AGAIN_S = 0.5, 60.0
#: What the process says when it writes a record.
_DOES: Mapping[str, str] = {
    "drain": "drains {}",
    "restarting": "announces the restart of {}",
    "restarted": "{} has gone and come back",
    "end": "all brokers are restarted: ends the roll",
}
#: Phases of a broker that it reports when a round has them.
_REPORTED = ("drained", "restarted")
RollEnd = HaltRoll | EndProcess
#: Pause between two reads of the plans (s): each opens four topics.
_EVERY_S = 15.0


T = TypeVar("T")
U = TypeVar("U")
#: A call of a look, and a probe for frozen brokers (ms). A healthy broker answers in milliseconds.
_LOOK_MS, _PROBE_MS = 5_000, 10_000
#: Brokers that are asked for a read of metadata, until one answers.
_READERS = 2
_MOST_UNOWNED = 20


class WaitingPlans:
    """The plan of a cluster that waits for approval, looked for at intervals."""

    def __init__(self, settings: Settings, cluster: str) -> None:
        self._settings, self._cluster = settings, cluster
        self._due = 0.0
        self._found: str | None = None

    def obstacle(self) -> str | None:
        """A sentence about the oldest plan that waits; None without one."""
        if self._settings.executor.approval == "required" and time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_S
            with suppress(RebalancerError):
                self._found = _waiting_plan(self._settings, self._cluster)
        return self._found


def _waiting_plan(settings: Settings, cluster: str) -> str | None:
    connections, rounds, now_ms = settings.connections, settings.engine.round, wall_clock_ms()
    # The roll's next look must not wait until servers that are away come back.
    connections = replace(connections, kafka=replace(connections.kafka, outage_ms=0))
    # The commands of older records have expired: their plans wait no longer.
    since_ms = now_ms - rounds.command_ttl_ms - rounds.max_clock_jump_ms
    plans = plans_of(read_plans(connections, since_ms), now_ms)
    waiting = [one.id for one in plans if (one.cluster, one.state) == (cluster, "waiting")]
    if not waiting:
        return None
    id_ = waiting[-1]
    return f"plan {id_} waits for approval: `rebalancer plans approve {id_} --reason TEXT`"


class ClusterObserver:
    """Looks at one cluster again and again. `look` raises Unauthorized; other errors of the cluster
    are part of what it sees.
    """

    def __init__(self, settings: Settings, cluster: str, *, probe_ms: int = _PROBE_MS) -> None:
        """Opens no connection yet. `probe_ms`: after which a read of metadata counts as unfinished.
        Outcomes from before now are not read. Raises SettingsError.
        """
        pulsar = settings.connections.pulsar
        self._known = KnownBrokers(pulsar)
        self._opened = ExitStack()
        # One attempt, which ends soon: the next look comes in a second.
        quick = replace(pulsar, attempts=1, deadline_ms=min(pulsar.deadline_ms, _LOOK_MS))
        self._admin = self._client(quick)
        self._freezes = FreezeWatch(self._client(probing(pulsar, probe_ms)))
        outcomes = settings.connections.topics.outcomes
        self._outcomes = FollowedTopic(outcomes, settings.connections, wall_clock_ms())
        self._opened.callback(self._outcomes.close)
        self._plans = WaitingPlans(settings, cluster)
        self._cluster = pulsar.cluster
        self._unowned: dict[str, None] = {}

    def _client(self, settings: PulsarSettings) -> PulsarAdmin:
        client = PulsarAdmin(settings, lambda _: False, known=self._known)
        return self._opened.enter_context(closing(client))

    def close(self) -> None:
        """Closes all connections."""
        self._opened.close()

    def brokers(self) -> tuple[str, ...]:
        """The cluster's list. Raises AdminError."""
        return self._admin.brokers()

    def look(self, phases: Mapping[str, RollPhase]) -> Observation:
        """Observes what is there now. `phases`: of the roll's brokers."""
        now_ms, live = wall_clock_ms(), _ask(self._admin.brokers, None)
        restarting = [name for name, phase in phases.items() if phase == "restarting"]
        others = [name for name in live or () if name not in restarting]
        stuck = NONE if live is None else _ask(partial(self._freezes.stuck, others), NONE)
        readers = [name for name in others if name not in stuck.brokers]
        readable = (
            live is not None
            and stuck.others_read
            and (not readers or any(self._reads(name) for name in readers[:_READERS]))
        )
        back = [name for name in restarting if name in (live or ()) and self._reads(name)]
        return Observation(
            now_ms,
            live,
            _ask(self._admin.leader, None),
            (*readers, *back) if readable else (),
            stuck.brokers if stuck.others_read else (),
            self._starts([*back, *(one for one in readers if phases.get(one) == "drained")]),
            self._unowned_bundles(phases) if readable else (),
            readable,
            self._plans.obstacle(),
        )

    def _reads(self, broker: str) -> bool:
        return _ask(partial(self._admin.read_metadata, broker), False) is None

    def _starts(self, brokers: Sequence[str]) -> dict[str, int]:
        starts = {name: _ask(partial(self._admin.started_ms, name), None) for name in brokers}
        return {name: started for name, started in starts.items() if started is not None}

    def _unowned_bundles(self, phases: Mapping[str, RollPhase]) -> Sequence[str]:
        """The bundles that executors have reported without an owner after a move away from the
        roll's brokers, until a broker has them.
        """
        for record in self._outcomes.read():
            with suppress(WireError):
                check_read(record)
                answer = decode_answer(record.value)
                if isinstance(answer, Outcome) and self._is_lost(answer, phases):
                    self._unowned[answer.bundle] = None
        for bundle in list(self._unowned)[:_MOST_UNOWNED]:
            if not self._is_unowned(bundle):
                del self._unowned[bundle]
        return list(self._unowned)

    def _is_lost(self, outcome: Outcome, phases: Mapping[str, RollPhase]) -> bool:
        code = (outcome.reason or "").partition(":")[0]
        of_roll = outcome.cluster == self._cluster and outcome.owner_before in phases
        return of_roll and code == "unowned"

    def _is_unowned(self, bundle: str) -> bool:
        """True if it exists and no broker has it. Where the cluster does not say, it stays as it
        is.
        """
        namespace, _, range_ = bundle.rpartition("/")
        return _ask(
            lambda: self._admin.owner(bundle) is None and range_ in self._admin.ranges(namespace),
            True,
        )


def _ask(ask: Callable[[], T], unknown: U) -> T | U:
    """The answer of the cluster; `unknown` without one. Raises Unauthorized."""
    try:
        return ask()
    except Unauthorized:
        raise
    except AdminError:
        return unknown


@dataclass
class RestartCommands:
    """The commands that run, by broker. `command`: for `sh -c`; empty = a person restarts."""

    command: str
    state: RollState
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def begin(self, broker: str) -> None:
        """Starts the command in a session of its own: it outlives this process, so that a restart
        is never half done because a terminal was closed.
        """
        failed = None
        if self.command:
            try:
                self.running[broker] = subprocess.Popen(
                    ["sh", "-c", self.command, "sh", broker],
                    env={**os.environ, "REBALANCER_BROKER": broker},
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # standard output is the roll's own result
                    start_new_session=True,
                )
            except OSError as error:
                failed = f"the command cannot be started ({error.strerror or error})"
        self.state.begin_restart(broker, wall_clock_ms(), failed)

    def poll(self) -> None:
        """Notes the commands that have ended."""
        for broker, process in list(self.running.items()):
            code = process.poll()
            if code is not None:
                del self.running[broker]
                self.state.end_command(broker, _failure(code))


def _failure(code: int) -> str | None:
    if code < 0:
        return f"its command was ended by signal {-code}"
    return f"its command ended with exit code {code}" if code else None


class RollProcess:
    """One process of a roll."""

    def __init__(
        self, session: IntentSession, state: RollState, observer: ClusterObserver, command: str
    ) -> None:
        """`state`: of a process that has done nothing yet; `command`: restarts a broker."""
        self._session, self._state, self._observer = session, state, observer
        self._commands = RestartCommands(command, state)
        self._said, self._said_at = "", 0.0
        outage_s = session.settings.connections.kafka.outage_ms / 1000
        self._outage = RetryBackoff(outage_s, session.stop.wait, session.note)
        state.read(session.newest)

    def write(self, record: Intent) -> None:
        """Publishes a record, again and again while the topic's servers are away: it counts once.
        Raises SettingsError, SinkError.
        """
        while not self._session.stop.is_set():
            try:
                self._session.write(record)
            except SinkError as error:
                self._outage.wait_or_raise(error)
            else:
                self._outage.succeeded()
                self._state.write(record)
                return

    def run(self) -> RollEnd | None:
        """Goes on until the process has nothing more to do; None after a signal. Raises
        SettingsError, SinkError, Unauthorized.
        """
        while not self._session.stop.is_set():
            self._read(self._session.answers.rounds())
            self._commands.poll()
            seen = self._observer.look(self._state.phases)
            step = self._rejected() or next_step(self._state, seen)
            self._take(step)
            if isinstance(step, HaltRoll | EndProcess):
                return step
            self._session.stop.wait(LOOK_S)
        return None

    def _read(self, rounds: Iterable[Round]) -> None:
        for done in rounds:
            before = self._state.phases
            self._state.read(done)
            for broker, phase in self._state.phases.items():
                if before and before.get(broker) != phase and phase in _REPORTED:
                    self._session.note(f"{broker} is {phase}", "phase", broker=broker, phase=phase)

    def _rejected(self) -> EndProcess | None:
        """The end of a process whose record was rejected before any round saw it."""
        pending = self._state.pending
        why = None if pending is None else self._session.answers.rejection(pending.id)
        if why is None:
            return None
        return EndProcess(
            "refused", f"a record was rejected: {why}", "Correct this, and try again."
        )

    def _take(self, step: RollStep) -> None:
        session, roll = self._session, self._state.roll
        match step:
            case WriteRecord(action, broker, reason, together):
                why = session.reason if action == "drain" else reason
                record = session.record(action, broker, reason=why, roll=roll, together=together)
                self.write(record)
                session.note(_DOES[action].format(broker), action, broker=broker)
            case RunRestart(broker):
                what = f"runs the restart of {broker}"
                if self._state.rules.by_hand:
                    what = f"RESTART {broker} NOW: it is empty"
                session.note(what, "restart", broker=broker)
                self._commands.begin(broker)
            case KeepWaiting(text):
                self._say(text)
            case HaltRoll(text):
                self.write(session.record("halt", reason=text[:LONGEST_REASON], roll=roll))

    def _say(self, text: str) -> None:
        """One line when it differs in more than its numbers, and once a minute."""
        kind, now = without_durations(text), time.monotonic()
        if kind != self._said or now - self._said_at >= _AGAIN_S:
            self._session.note(text, "waiting")
            self._said, self._said_at = kind, now

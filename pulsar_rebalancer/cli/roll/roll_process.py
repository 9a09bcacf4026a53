"""The process of a roll: reads rounds, looks at the cluster, asks for the next step, and takes it.
It may be killed at any point; another one goes on (decision 0242). The restart command of a broker
runs beside it.
"""

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pulsar_rebalancer.cli.intent_session import IntentSession, without_durations
from pulsar_rebalancer.cli.roll.cluster_observer import ClusterObserver
from sinks.graceful_stop import wall_clock_ms
from sinks.topics.server_outages import RetryBackoff
from sinks.wire.contracts.execution import LONGEST_REASON
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import Round
from strategies.errors import SinkError
from strategies.roll.next_step import next_step
from strategies.roll.roll_state_and_evidence import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
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

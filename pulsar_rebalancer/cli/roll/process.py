"""The process of a roll: reads rounds, looks at the cluster, asks for the next step, and takes it.
It may be killed at any point; another one goes on (decision 0242).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pulsar_rebalancer.cli.intents import IntentSession, without_durations
from pulsar_rebalancer.cli.roll.observe import ClusterObserver
from pulsar_rebalancer.cli.roll.restarts import RestartCommands
from sinks.topics.retry_backoff import RetryBackoff
from sinks.wall_clock import wall_clock_ms
from sinks.wire.contracts.approvals import LONGEST_REASON
from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import Round
from strategies.errors import SinkError
from strategies.roll.next_step import next_step
from strategies.roll.steps import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    RollFacts,
    RollStep,
    RunRestart,
    WriteRecord,
)
from strategies.roll.view import (
    Observation,
    RestartRun,
    RollMemory,
    RollRounds,
    RollRules,
    after_round,
    with_answer,
    with_record,
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


@dataclass(frozen=True)
class RollPlan:
    """What a process carries out. `roll`: id of the roll; `obstacle`: why moves wait outside of
    rounds, None if they do not.
    """

    roll: str
    rules: RollRules
    max_unavailable: int
    obstacle: Callable[[], str | None]


class RollProcess:
    """One process of a roll."""

    def __init__(
        self,
        session: IntentSession,
        plan: RollPlan,
        observer: ClusterObserver,
        commands: RestartCommands,
        memory: RollMemory,
    ) -> None:
        """`memory`: of a process that has done nothing yet."""
        self._session, self._plan, self._observer, self._commands = (
            session,
            plan,
            observer,
            commands,
        )
        self._memory, self._rounds = memory, RollRounds()
        self._said, self._said_at = "", 0.0
        outage_s = session.settings.connections.kafka.outage_ms / 1000
        self._outage = RetryBackoff(outage_s, session.stop.wait, session.note)
        self._fold([session.newest])

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
                self._memory = with_record(self._memory, record, self._rounds)
                return

    def run(self) -> RollEnd | None:
        """Goes on until the process has nothing more to do; None after a signal. Raises
        SettingsError, SinkError, Unauthorized.
        """
        while not self._session.stop.is_set():
            self._fold(self._session.answers.rounds())
            self._memory = self._commands.looked_at(self._memory)
            seen = self._look()
            step = self._rejected() or next_step(
                RollFacts(
                    self._rounds, seen, self._memory, self._plan.rules, self._plan.max_unavailable
                )
            )
            if isinstance(step, HaltRoll | EndProcess):
                return self._end(step)
            self._take(step, seen)
            self._session.stop.wait(LOOK_S)
        return None

    def _fold(self, rounds: Iterable[Round]) -> None:
        for done in rounds:
            before = self._rounds.view.phases
            self._rounds = after_round(
                self._rounds,
                done,
                done.intents,
                self._plan.roll,
                self._plan.rules,
                now_ms=wall_clock_ms(),
            )
            self._memory = with_answer(self._memory, self._rounds.view)
            for broker, phase in self._rounds.view.phases.items():
                if before and before.get(broker) != phase and phase in _REPORTED:
                    self._session.note(f"{broker} is {phase}", "phase", broker=broker, phase=phase)

    def _look(self) -> Observation:
        view = self._rounds.view
        expected = sorted({*view.phases, *self._rounds.brokers})
        return self._observer.look(wall_clock_ms(), view.phases, expected, self._plan.obstacle())

    def _rejected(self) -> EndProcess | None:
        """The end of a process whose record was rejected before any round saw it."""
        pending = self._memory.pending
        why = None if pending is None else self._session.answers.rejection(pending.id)
        if why is None:
            return None
        return EndProcess(
            "refused", f"a record was rejected: {why}", "Correct this, and try again."
        )

    def _take(self, step: RollStep, seen: Observation) -> None:
        match step:
            case WriteRecord(action, broker, reason, together):
                reason = self._session.reason if action == "drain" else reason
                given = {"roll": self._plan.roll} | ({"together": True} if together else {})
                self.write(self._session.record(action, broker, reason=reason, **given))
                self._session.note(_DOES[action].format(broker), action, broker=broker)
            case RunRestart(broker):
                self._restart(broker, seen)
            case KeepWaiting(text):
                self._say(text)

    def _restart(self, broker: str, seen: Observation) -> None:
        by_hand = self._plan.rules.by_hand
        what = f"RESTART {broker} NOW: it is empty" if by_hand else f"runs the restart of {broker}"
        self._session.note(what, "restart", broker=broker)
        run = RestartRun(wall_clock_ms(), seen.started_ms.get(broker, 0))
        self._memory = self._commands.begin(self._memory, broker, run)

    def _end(self, step: RollEnd) -> RollEnd:
        if isinstance(step, HaltRoll):
            reason = step.text[:LONGEST_REASON]
            self.write(self._session.record("halt", reason=reason, roll=self._plan.roll))
        return step

    def _say(self, text: str) -> None:
        """One line when it differs in more than its numbers, and once a minute."""
        kind, now = without_durations(text), time.monotonic()
        if kind != self._said or now - self._said_at >= _AGAIN_S:
            self._session.note(text, "waiting")
            self._said, self._said_at = kind, now

"""A modelled process of `rebalancer roll`: it asks for the next step and returns what the step
writes and restarts. It reads no topic and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from strategies.cluster.intent_contract import Intent, IntentAction
from strategies.cluster.model import Round
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
    Absences,
    Observation,
    RestartRun,
    RollMemory,
    RollRounds,
    RollRules,
    after_look,
    after_round,
    with_answer,
    with_record,
    with_restart,
)

_BY = "operator"
#: Steps in one look; more than any roll of a cluster has to take at once.
_STEPS = 100


@dataclass(slots=True)
class ModelledEyes:
    """What a process sees of the brokers when it looks."""

    absences: Absences = Absences()

    def look(
        self,
        now_ms: int,
        live: Collection[str],
        expected: Iterable[str],
        *,
        leader: str | None,
        started_ms: Mapping[str, int],
    ) -> Observation:
        """What is there now. `expected`: all brokers that should be; `started_ms`: by broker, of
        those that say it.
        """
        self.absences = after_look(self.absences, now_ms, live, expected)
        return Observation(
            now_ms,
            tuple(live),
            leader if leader in live else None,
            tuple(live),
            started_ms={name: at for name, at in started_ms.items() if name in live},
            missing_ms=self.absences.missing_ms,
            gone_ms=self.absences.gone_ms,
        )


@dataclass(frozen=True, slots=True)
class RollActs:
    """What a process does after a look: records to write, brokers whose restart command it runs."""

    records: tuple[Intent, ...] = ()
    restarts: tuple[str, ...] = ()


@dataclass(slots=True)
class ModelledRoll:
    """One process of a roll; what it remembers is lost with it.

    `next_id`: returns the id of each new record; `since_ms`: when the process began; `again`:
    brokers that a person wants to have restarted once more. `ended`: why it has ended, None while
    it runs; `said`: its last sentence.
    """

    cluster: str
    next_id: Callable[[], str]
    since_ms: int
    roll: str = ""
    rules: RollRules = RollRules()
    max_unavailable: int = 1
    again: frozenset[str] = frozenset()
    rounds: RollRounds = RollRounds()
    memory: RollMemory = field(init=False)
    ended: HaltRoll | EndProcess | None = None
    said: str = ""

    def __post_init__(self) -> None:
        self.memory = RollMemory(self.since_ms, due=self.again)

    def begin(self, brokers: Iterable[str], reason: str, now_ms: int) -> Intent:
        """The record that begins the roll."""
        record = replace(
            self._record("roll", None, reason, now_ms),
            roll=None,
            brokers=tuple(brokers),
            max_unavailable=self.max_unavailable,
        )
        self.roll = record.id
        return self._written(record)

    def resume(self, now_ms: int) -> Intent:
        """The first record of a process that goes on with a roll."""
        return self._written(self._record("resume", None, "the process starts again", now_ms))

    def heard(self, done: Round) -> None:
        """Reads a round as soon as it is there: all processes have the same clock."""
        self.rounds = after_round(
            self.rounds, done, done.intents, self.roll, self.rules, now_ms=done.ts
        )
        self.memory = with_answer(self.memory, self.rounds.view)

    def act(self, seen: Observation) -> RollActs:
        """Takes all steps that are possible now."""
        records, restarts = list[Intent](), list[str]()
        for _ in range(_STEPS):
            if self.ended is not None:
                break
            step = self._next(seen)
            if isinstance(step, KeepWaiting):
                break
            self._take(step, seen, records, restarts)
        return RollActs(tuple(records), tuple(restarts))

    def command_ended(self, broker: str, failed: str | None = None) -> None:
        """Notes that the restart command of a broker has ended. `failed`: why it failed."""
        run = self.memory.ran.get(broker)
        if run is not None:
            run = replace(run, running=False, failed=failed)
            self.memory = with_restart(self.memory, broker, run)

    def _next(self, seen: Observation) -> RollStep:
        facts = RollFacts(self.rounds, seen, self.memory, self.rules, self.max_unavailable)
        step = next_step(facts)
        self.said = getattr(step, "text", self.said)
        return step

    def _take(
        self, step: RollStep, seen: Observation, records: list[Intent], restarts: list[str]
    ) -> None:
        match step:
            case WriteRecord(action, broker, reason, together):
                record = self._record(action, broker, reason, seen.now_ms)
                records.append(self._written(replace(record, together=together)))
            case RunRestart(broker):
                run = RestartRun(seen.now_ms, seen.started_ms.get(broker, 0), running=True)
                self.memory = with_restart(self.memory, broker, run)
                restarts.append(broker)
            case HaltRoll(text):
                records.append(self._record("halt", None, text, seen.now_ms))
                self.ended = step
            case EndProcess():
                self.ended = step

    def _record(self, action: IntentAction, broker: str | None, reason: str, now_ms: int) -> Intent:
        return Intent(
            self.cluster, now_ms, self.next_id(), action, _BY, reason, broker, roll=self.roll
        )

    def _written(self, record: Intent) -> Intent:
        self.memory = with_record(self.memory, record)
        return record

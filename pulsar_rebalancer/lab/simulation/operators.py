"""The operators of a scenario: their records, the processes of their rolls, and the restarts that
these run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

from pulsar_rebalancer.lab.simulation.clock import START_MS
from pulsar_rebalancer.lab.simulation.scenarios.schema import Happening
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
            step = next_step(
                RollFacts(self.rounds, seen, self.memory, self.rules, self.max_unavailable)
            )
            self.said = getattr(step, "text", self.said)
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


@dataclass(slots=True)
class _Rolling:
    """A process and what it sees. `away_ms`: how long a broker is away when it restarts."""

    process: ModelledRoll
    eyes: ModelledEyes
    away_ms: int


class Operators:
    """Writes records for the drains and rolls of a scenario. Records reach the next round; a
    process looks at the cluster after each round.
    """

    def __init__(self, cluster: str, brokers: Sequence[str]) -> None:
        """`brokers`: all of the scenario."""
        self._cluster, self._brokers = cluster, tuple(brokers)
        self._records: list[Intent] = []
        self._rolls: list[_Rolling] = []
        self._back_ms: dict[str, int] = {}
        self._started_ms = dict.fromkeys(brokers, START_MS)
        self._count = 0

    def happen(
        self, happening: Happening, brokers: Sequence[str], present: Sequence[str], now_ms: int
    ) -> None:
        """Writes the records of a happening. `brokers`: those that it names."""
        if happening.kind == "roll":
            process = ModelledRoll(
                self._cluster, self._next_id, now_ms, max_unavailable=happening.max_unavailable or 1
            )
            self._records.append(process.begin(brokers or present, "a scenario's roll", now_ms))
            away_ms = int(happening.minutes * 60_000)
            self._rolls.append(_Rolling(process, ModelledEyes(), away_ms))
            return
        for number, broker in enumerate(brokers):
            action: Literal["drain", "undrain"] = (
                "undrain" if happening.kind == "undrain" else "drain"
            )
            self._records.append(
                Intent(
                    self._cluster,
                    now_ms,
                    self._next_id(),
                    action,
                    _BY,
                    f"a scenario's {action}",
                    broker,
                    together=action == "drain" and number > 0,
                )
            )

    def joined(self, broker: str, now_ms: int) -> None:
        """Notes that a broker has started."""
        self._started_ms[broker] = now_ms

    def records(self) -> list[Intent]:
        """The records since the last call."""
        records, self._records = self._records, []
        return records

    def restarts(self, done: Round, present: Sequence[str], now_ms: int) -> list[str]:
        """Lets the processes read a round and act. Returns the brokers that leave now, to come back
        later.
        """
        leaving: list[str] = []
        for one in self._rolls:
            one.process.heard(done)
            expected = [name for name in self._brokers if name in present or name in done.stale]
            acts = one.process.act(
                one.eyes.look(
                    now_ms,
                    present,
                    [*expected, *one.process.rounds.view.phases],
                    leader=self._leader(present),
                    started_ms=self._started_ms,
                )
            )
            self._records += acts.records
            leaving += acts.restarts
            self._back_ms |= dict.fromkeys(acts.restarts, now_ms + one.away_ms)
        return leaving

    def back(self, now_ms: int) -> list[str]:
        """The brokers whose restart is over, once."""
        back = [name for name, due in self._back_ms.items() if due <= now_ms]
        for name in back:
            del self._back_ms[name]
            self.joined(name, now_ms)
            for one in self._rolls:
                one.process.command_ended(name)
        return back

    def _leader(self, present: Sequence[str]) -> str | None:
        """The broker that runs longest: who leads, leads until it leaves."""
        return min(present, key=lambda name: self._started_ms[name], default=None)

    def _next_id(self) -> str:
        self._count += 1
        return blake2b(f"{self._cluster} {self._count}".encode(), digest_size=16).hexdigest()

"""The operators of a scenario: their records, the processes of their rolls, and the restarts that
these run.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from pulsar_rebalancer.lab.simulation.clock import START_MS
from pulsar_rebalancer.lab.simulation.scenarios.schema import Happening
from strategies.cluster.intent_records_and_states import Intent, IntentAction
from strategies.cluster.model import Round
from strategies.roll.next_step import next_step
from strategies.roll.roll_state_and_evidence import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    Observation,
    RollRules,
    RollState,
    RunRestart,
    WriteRecord,
)

_BY = "operator"
#: Steps in one look; more than any roll of a cluster has to take at once.
_STEPS = 100


@dataclass(slots=True)
class ModelledRoll:
    """One process of a roll; what it remembers is lost with it. All processes have the same clock.

    `next_id`: returns the id of each new record. `ended`: why it has ended, None while it runs;
    `said`: its last sentence.
    """

    cluster: str
    next_id: Callable[[], str]
    state: RollState
    ended: HaltRoll | EndProcess | None = None
    said: str = ""

    def begin(self, brokers: Iterable[str], reason: str, now_ms: int) -> Intent:
        """The record that begins the roll."""
        record = replace(
            self._record("roll", None, reason, now_ms),
            roll=None,
            brokers=tuple(brokers),
            max_unavailable=self.state.rules.max_unavailable,
        )
        self.state.roll = record.id
        self.state.write(record)
        return record

    def act(self, seen: Observation) -> tuple[list[Intent], list[str]]:
        """Takes all steps that are possible now. Returns records to write, and brokers whose
        restart command it runs.
        """
        records, restarts = list[Intent](), list[str]()
        for _ in range(_STEPS):
            if self.ended is not None:
                break
            step = next_step(self.state, seen)
            self.said = getattr(step, "text", self.said)
            match step:
                case KeepWaiting():
                    break
                case WriteRecord(action, broker, reason, together):
                    record = self._record(action, broker, reason, seen.now_ms)
                    records.append(replace(record, together=together))
                    self.state.write(records[-1])
                case RunRestart(broker):
                    self.state.begin_restart(broker, seen.now_ms)
                    restarts.append(broker)
                case HaltRoll(text):
                    records.append(self._record("halt", None, text, seen.now_ms))
                    self.ended = step
                case EndProcess():
                    self.ended = step
        return records, restarts

    def _record(self, action: IntentAction, broker: str | None, reason: str, now_ms: int) -> Intent:
        return Intent(
            self.cluster,
            now_ms,
            self.next_id(),
            action,
            _BY,
            reason,
            broker,
            roll=self.state.roll,
        )


class Operators:
    """Writes records for the drains and rolls of a scenario. Records reach the next round; a
    process looks at the cluster after each round.
    """

    def __init__(self, cluster: str, brokers: Sequence[str]) -> None:
        """`brokers`: all of the scenario."""
        self._cluster = cluster
        self._records: list[Intent] = []
        #: Processes of rolls, and how long a broker is away when they restart it (ms).
        self._rolls: list[tuple[ModelledRoll, int]] = []
        self._back_ms: dict[str, int] = {}
        self._started_ms = dict.fromkeys(brokers, START_MS)
        self._count = 0

    def happen(
        self, happening: Happening, brokers: Sequence[str], present: Sequence[str], now_ms: int
    ) -> None:
        """Writes the records of a happening. `brokers`: those that it names."""
        if happening.kind == "roll":
            rules = RollRules(max_unavailable=happening.max_unavailable or 1)
            process = ModelledRoll(self._cluster, self._next_id, RollState("", now_ms, rules))
            self._records.append(process.begin(brokers or present, "a scenario's roll", now_ms))
            self._rolls.append((process, int(happening.minutes * 60_000)))
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
        leaving, leader = list[str](), self._leader(present)
        seen = Observation(now_ms, (*present,), leader, (*present,), (), self._started_ms)
        for process, away_ms in self._rolls:
            process.state.read(done)
            records, restarts = process.act(seen)
            self._records += records
            leaving += restarts
            self._back_ms |= dict.fromkeys(restarts, now_ms + away_ms)
        return leaving

    def back(self, now_ms: int) -> list[str]:
        """The brokers whose restart is over, once."""
        back = [name for name, due in self._back_ms.items() if due <= now_ms]
        for name in back:
            del self._back_ms[name]
            self.joined(name, now_ms)
            for process, _ in self._rolls:
                process.state.end_command(name)
        return back

    def _leader(self, present: Sequence[str]) -> str | None:
        """The broker that runs longest: who leads, leads until it leaves."""
        return min(present, key=lambda name: self._started_ms[name], default=None)

    def _next_id(self) -> str:
        self._count += 1
        return blake2b(f"{self._cluster} {self._count}".encode(), digest_size=16).hexdigest()

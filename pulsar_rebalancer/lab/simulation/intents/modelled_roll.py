"""A modelled process of `rebalancer roll`: it asks for the next step and returns what the step
writes and restarts. It reads no topic and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from strategies.cluster.intent_contract import Intent, IntentAction
from strategies.roll.next_step import next_step
from strategies.roll.roll_state import Observation, RollState
from strategies.roll.steps import EndProcess, HaltRoll, KeepWaiting, RunRestart, WriteRecord

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

    def resume(self, now_ms: int) -> Intent:
        """The first record of a process that goes on with a roll."""
        record = self._record("resume", None, "the process starts again", now_ms)
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
        roll = self.state.roll
        return Intent(self.cluster, now_ms, self.next_id(), action, _BY, reason, broker, roll=roll)

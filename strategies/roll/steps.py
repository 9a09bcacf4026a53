"""The steps of a roll, and the facts that they depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from strategies.cluster.intent_contract import IntentAction
from strategies.roll.view import Observation, RestartRun, RollMemory, RollRounds, RollRules

#: done: all brokers are restarted. Others: see the text.
EndCode = Literal["done", "halted", "cancelled", "refused", "unanswered", "taken-over"]


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Write a record of the roll. `together`: the drain begins while others last."""

    action: IntentAction
    broker: str | None
    reason: str
    together: bool = False


@dataclass(frozen=True, slots=True)
class RunRestart:
    """Run the restart command for a broker, once."""

    broker: str


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    """Look again later. `text`: what the roll waits for."""

    text: str


@dataclass(frozen=True, slots=True)
class HaltRoll:
    """Write a `halt` record with `text` as its reason, and end the process. `advice`: how to go on,
    as a sentence.
    """

    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class EndProcess:
    """End the process without a record."""

    code: EndCode
    text: str
    advice: str


RollStep = WriteRecord | RunRestart | KeepWaiting | HaltRoll | EndProcess


@dataclass(frozen=True, slots=True)
class RollFacts:
    """Everything that a step depends on. `max_unavailable`: of the roll."""

    rounds: RollRounds
    seen: Observation
    memory: RollMemory
    rules: RollRules
    max_unavailable: int = 1

    @property
    def now_ms(self) -> int:
        return self.seen.now_ms

    def brokers(self, *phases: str) -> list[str]:
        """The brokers of the roll in one of these phases, by name."""
        return [name for name, phase in self.rounds.view.phases.items() if phase in phases]

    def is_listed(self, broker: str) -> bool:
        return self.seen.live is not None and broker in self.seen.live

    def is_back(self, broker: str) -> bool:
        """Whether the broker is listed and answers reads of metadata."""
        return self.is_listed(broker) and broker in self.seen.reading

    def has_restarted(self, broker: str) -> bool:
        """Whether there is evidence of a restart that belongs to the roll: the broker was missing
        since this process ran the restart (without one: since this process looks), or it says that
        it started after its restart was announced, and later than it said before the restart.
        """
        run = self.memory.ran.get(broker, RestartRun(self.memory.since_ms))
        if self.seen.gone_ms.get(broker, -1) >= run.at_ms:
            return True
        drain = self.rounds.view.drains.get(broker)
        started = self.seen.started_ms.get(broker)
        if drain is None or started is None:
            return False
        return started > max(drain.since_ms, run.started_before_ms)

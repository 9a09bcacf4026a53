"""The steps of a roll."""

from __future__ import annotations

from dataclasses import dataclass

from strategies.cluster.intent_contract import IntentAction


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
    """End the process without a record. `code`: done (all brokers are restarted), halted,
    cancelled, refused, unanswered or taken-over.
    """

    code: str
    text: str
    advice: str


RollStep = WriteRecord | RunRestart | KeepWaiting | HaltRoll | EndProcess

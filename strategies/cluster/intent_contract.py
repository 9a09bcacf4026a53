"""The record of an intent, and what rounds say about intents.

An intent is folded like every other telemetry record, so that the same log gives the same commands.
Times in ms since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

#: drain, undrain: of `broker`. roll: begins a roll of `brokers`. restarting, restarted: the roll's
#: process is about to restart `broker`, and has seen it go and come back. halt, resume, end: of the
#: roll. Only drain and undrain may have no roll.
IntentAction = Literal[
    "drain", "undrain", "roll", "restarting", "restarted", "halt", "resume", "end"
]

#: Of a drain: asked, draining, drained, blocked, done, cancelled. Of a roll: rolling, halted, done,
#: cancelled. Of any record: refused.
IntentStateCode = Literal[
    "asked",
    "draining",
    "drained",
    "blocked",
    "rolling",
    "halted",
    "done",
    "cancelled",
    "refused",
]

#: States of what has ended, and has no effect any more.
ENDED: tuple[IntentStateCode, ...] = ("done", "cancelled", "refused")
#: The others.
LASTING: tuple[IntentStateCode, ...] = tuple(
    code for code in get_args(IntentStateCode) if code not in ENDED
)
#: Of one broker of a roll, in this order.
RollPhase = Literal["waiting", "draining", "drained", "restarting", "restarted"]


_IN_WORDS: Mapping[IntentAction, str] = {
    "drain": "drain {broker}",
    "undrain": "end the drain of {broker}",
    "roll": "roll {count} brokers",
    "restarting": "restart {broker}",
    "restarted": "go on after the restart of {broker}",
    "halt": "halt the roll",
    "resume": "go on with the roll",
    "end": "end the roll",
}


@dataclass(frozen=True, slots=True)
class Intent:
    """A request of an operator. `id`: 32 hex digits, new for each record; `by`: the person;
    `roll`: id of the roll that the record belongs to (of a `roll`: None).

    `brokers`: of a roll, in no order. `together`: a drain may begin while another one lasts.
    `until_ms`: when a drain ends by itself.
    """

    cluster: str
    ts: int
    id: str
    action: IntentAction
    by: str
    reason: str
    broker: str | None = None
    brokers: tuple[str, ...] = ()
    roll: str | None = None
    until_ms: int | None = None
    together: bool = False
    max_unavailable: int = 1
    origin: bytes = b""

    @property
    def in_words(self) -> str:
        """The request in words, after `to`: `end the drain of n1:8080`."""
        return _IN_WORDS[self.action].format(broker=self.broker, count=len(self.brokers))


@dataclass(frozen=True, slots=True)
class IntentStatus:
    """The status of one intent in a round: active ones, and for an hour those that have ended or
    were refused.

    `id`, `action`, `broker`, `by`, `reason`, `roll`, `until_ms`, `asked_ms`: of the intent (drain,
    roll, or a refused record). `text`: a sentence, with a code in brackets where something stands
    in the way; `advice`: what to do; `since_ms`: of this state. Of a drain: `left` of `total`
    bundles are still there; `left_ms`: estimate of the time until it is empty, None without one;
    `error_ms`: how wrong the estimate may be. Of a roll: `phases`: broker → phase; `record`: id of
    the last accepted record about it.
    """

    id: str
    action: IntentAction
    state: IntentStateCode
    text: str
    advice: str
    by: str
    reason: str
    asked_ms: int
    since_ms: int
    broker: str | None = None
    roll: str | None = None
    until_ms: int | None = None
    left: int | None = None
    total: int | None = None
    left_ms: int | None = None
    error_ms: int | None = None
    phases: Mapping[str, RollPhase] = field(default_factory=dict)
    record: str | None = None

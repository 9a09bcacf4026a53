"""The record of an intent (a request of an operator), and its status in the record of a round.

An intent is folded like every other telemetry record, so that the same log gives the same commands.
Times in ms since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

#: `drain`, `undrain`: begin and end the drain of `broker`, with or without a roll.
#: `roll`: begins a roll of `brokers`.
#: `restarting`: the roll's process is about to restart `broker`. `restarted`: it has seen the
#: broker go and come back.
#: `halt`, `resume`, `end`: halt the roll, go on with it, end it.
#: `move`: moves `bundle`, to `broker` if it names one.
#: `split`: splits `bundle`, and moves all its children but the first one if `moves_children`.
IntentAction = Literal[
    "drain", "undrain", "roll", "restarting", "restarted", "halt", "resume", "end", "move", "split"
]

#: State of a drain: asked, draining, drained, blocked, done or cancelled. State of a roll: rolling,
#: halted, done or cancelled. State of a move: asked, moving, blocked, done or cancelled. State of a
#: split: asked, splitting, blocked, moving while its children move, done or cancelled. State of any
#: record that is not accepted: refused.
IntentStateCode = Literal[
    "asked",
    "draining",
    "drained",
    "splitting",
    "moving",
    "blocked",
    "rolling",
    "halted",
    "done",
    "cancelled",
    "refused",
]

#: States of intents that have ended and have no effect any more.
ENDED: tuple[IntentStateCode, ...] = ("done", "cancelled", "refused")
#: States of active intents.
LASTING: tuple[IntentStateCode, ...] = tuple(
    code for code in get_args(IntentStateCode) if code not in ENDED
)
#: Phase of one broker of a roll; a broker takes them in this order.
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
    "move": "move {bundle}",
    "split": "split {bundle}",
}


@dataclass(frozen=True, slots=True)
class Intent:
    """A request of an operator, as written to the telemetry topic."""

    cluster: str
    #: When it was written, by the clock of the machine that wrote it.
    ts: int
    #: 32 hex digits, new for each record.
    id: str
    action: IntentAction
    #: The person.
    by: str
    reason: str
    #: The broker that the action concerns, of a move or a split the destination; None for actions
    #: of the whole roll, and for a move to any broker.
    broker: str | None = None
    #: Of the action `roll`: the brokers to restart, in no order.
    brokers: tuple[str, ...] = ()
    #: Id of the roll that the record belongs to; None for the record that begins one.
    roll: str | None = None
    #: When a drain ends by itself; None = never.
    until_ms: int | None = None
    #: The drain may begin while another one lasts.
    together: bool = False
    #: Of the action `roll`: number of brokers that may be drained or restarted at a time.
    max_unavailable: int = 1
    #: The bundle that moves or is split.
    bundle: str | None = None
    #: Of a split: Pulsar's name of its algorithm; None = `splitting.algorithm`.
    algorithm: str | None = None
    #: Of a split: the hashes at which the bundle is cut, ascending; none = as the algorithm says.
    positions: tuple[int, ...] = ()
    #: Of a split: all children but the one with the lowest hashes move.
    moves_children: bool = False
    #: Position and original bytes, opaque here.
    origin: bytes = b""

    @property
    def in_words(self) -> str:
        """The request as it follows `to` in a sentence: `end the drain of n1:8080`."""
        return _IN_WORDS[self.action].format(
            broker=self.broker, count=len(self.brokers), bundle=self.bundle
        )


@dataclass(frozen=True, slots=True)
class IntentStatus:
    """The status of an intent or a refused record in a round. Rounds have those of active intents,
    and for an hour those of intents that have ended or were refused.
    """

    #: Id of the intent's record.
    id: str
    action: IntentAction
    state: IntentStateCode
    #: A sentence, with a reason code in brackets if the intent cannot go on.
    text: str
    #: The operator's next step, as a sentence.
    advice: str
    by: str
    reason: str
    #: Time of the intent's record.
    asked_ms: int
    #: When this state began.
    since_ms: int
    broker: str | None = None
    #: Id of the roll that the intent belongs to.
    roll: str | None = None
    until_ms: int | None = None
    #: Of a drain: number of bundles on the broker now, and the largest number so far.
    left: int | None = None
    total: int | None = None
    #: Of a drain: estimated time until it is empty, and the error of this estimate.
    left_ms: int | None = None
    error_ms: int | None = None
    #: Of a roll: broker → phase.
    phases: Mapping[str, RollPhase] = field(default_factory=dict)
    #: Of a roll: id of the last accepted record about it.
    record: str | None = None
    #: Of a move or a split: the bundle.
    bundle: str | None = None


def status_of_refused(intent: Intent, now_ms: int, *, text: str, advice: str) -> IntentStatus:
    """Returns the status of a record that changes nothing."""
    return IntentStatus(
        intent.id,
        intent.action,
        "refused",
        text,
        advice,
        intent.by,
        intent.reason,
        intent.ts,
        now_ms,
        intent.broker,
        intent.roll,
        intent.until_ms,
        bundle=intent.bundle,
    )

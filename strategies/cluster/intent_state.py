"""The intents in a cluster's state: active drains, the active roll, and what has ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from strategies.cluster.intent_contract import ENDED, IntentStateCode, IntentStatus, RollPhase
from strategies.cluster.packing import EarlyRecord

#: Ended and refused intents are shown for this long, and at most this number of them.
_SHOWN_MS, _SHOWN = 3_600_000, 50

#: Code of the commands of a drain.
DRAIN = "drain"

DrainState = Literal["asked", "draining", "drained", "blocked"]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of executors to the drain's commands since a bundle last left: numbers of dry runs,
    of refusals and failures, and of commands that expired without an answer. `last`: the
    reason of the last refusal or failure.
    """

    dry_runs: int = 0
    refused: int = 0
    expired: int = 0
    last: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """An active drain. Times in ms since the epoch.

    `asked_ms`: time of the record; `since_ms`: since when in this state; `left`, `total`: bundles
    on the broker now, and all that it had to give; `seen`: (time, bundles left) of the last rounds.
    """

    id: str
    broker: str
    by: str
    reason: str
    asked_ms: int
    since_ms: int
    state: DrainState = "asked"
    roll: str | None = None
    until_ms: int | None = None
    together: bool = False
    left: int | None = None
    total: int | None = None
    seen: tuple[tuple[int, int], ...] = ()
    answers: Answers = Answers()
    #: Bundles that have left by an outcome, while the collector's note still lists them.
    gone: tuple[str, ...] = ()
    #: When it was first empty; None before.
    drained_ms: int | None = None
    #: What the last round said.
    text: str = ""
    advice: str = ""
    left_ms: int | None = None
    error_ms: int | None = None

    @property
    def was_drained(self) -> bool:
        return self.drained_ms is not None


@dataclass(frozen=True, slots=True)
class Roll:
    """The active roll. `phases`: broker → phase, in the order of the record; `halted`: the reason;
    `record`: id of the last accepted record about it.
    """

    id: str
    by: str
    reason: str
    asked_ms: int
    since_ms: int
    max_unavailable: int
    phases: Mapping[str, RollPhase]
    record: str
    halted: str | None = None

    @property
    def at_turn(self) -> tuple[str, ...]:
        """The brokers that are neither waiting nor done."""
        return tuple(
            broker for broker, phase in self.phases.items() if phase not in ("waiting", "restarted")
        )


@dataclass(frozen=True, slots=True)
class Intents:
    """All intents of one cluster. `drains`: broker → its drain; `seen`: id → time of each record
    that could still be believed if it came again; `early`: records without a part in the cluster's
    time from before the first round, which are judged after it.
    """

    drains: Mapping[str, Drain] = field(default_factory=dict)
    roll: Roll | None = None
    ended: tuple[IntentStatus, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    early: tuple[EarlyRecord, ...] = ()

    @property
    def moves_nothing(self) -> frozenset[str]:
        """Draining brokers whose bundles stay for now: their roll has halted, or restarts them."""
        roll = self.roll
        if roll is None:
            return frozenset()
        return frozenset(
            broker
            for broker, drain in self.drains.items()
            if drain.roll == roll.id
            and (roll.halted is not None or roll.phases.get(broker) == "restarting")
        )


#: The state of a cluster without intents.
NO_INTENTS = Intents()


def forget_old(intents: Intents, now_ms: int, believed_ms: int) -> Intents:
    """The intents without what has ended an hour ago, and without ids of records that would not be
    believed if they came again. `believed_ms`: how far from the cluster's time a record may be.
    """
    if intents == NO_INTENTS:
        return intents
    ended = tuple(status for status in intents.ended if status.since_ms > now_ms - _SHOWN_MS)
    seen = {id_: ts for id_, ts in intents.seen.items() if abs(ts - now_ms) <= believed_ms}
    return replace(intents, ended=ended[-_SHOWN:], seen=seen)


def at_time(intents: Intents, now_ms: int) -> Intents:
    """The intents after the cluster's time went back to `now_ms`: nothing of them is in the future,
    and no estimate is left.
    """
    drains = {
        broker: replace(drain, since_ms=min(drain.since_ms, now_ms), seen=())
        for broker, drain in intents.drains.items()
    }
    roll = intents.roll
    if roll is not None:
        roll = replace(roll, since_ms=min(roll.since_ms, now_ms))
    ended = tuple(
        replace(status, since_ms=min(status.since_ms, now_ms)) for status in intents.ended
    )
    return replace(intents, drains=drains, roll=roll, ended=ended)


def without_drain(
    intents: Intents, broker: str, now_ms: int, *, how: str, done: bool | None = None
) -> Intents:
    """The intents after the drain of a broker has ended. `how`: a sentence without a full stop;
    `done`: None = if the broker was drained.
    """
    was_drained = intents.drains[broker].was_drained if done is None else done
    return end_drain(
        intents,
        broker,
        now_ms,
        "done" if was_drained else "cancelled",
        text=how,
        advice="Nothing to do: the broker may take bundles again.",
    )


def end_drain(
    intents: Intents, broker: str, now_ms: int, state: IntentStateCode, *, text: str, advice: str
) -> Intents:
    """The intents without the drain of a broker, and with its last status."""
    status = replace(
        status_of_drain(intents.drains[broker]),
        state=state,
        text=text,
        advice=advice,
        since_ms=now_ms,
        left_ms=None,
        error_ms=None,
    )
    drains = {name: drain for name, drain in intents.drains.items() if name != broker}
    return replace(intents, drains=drains, ended=(*intents.ended, status))


def status_of_drain(drain: Drain) -> IntentStatus:
    """Returns the status of an active drain, for rounds."""
    return IntentStatus(
        drain.id,
        "drain",
        drain.state,
        drain.text,
        drain.advice,
        drain.by,
        drain.reason,
        drain.asked_ms,
        drain.since_ms,
        drain.broker,
        drain.roll,
        drain.until_ms,
        drain.left,
        drain.total,
        drain.left_ms,
        drain.error_ms,
    )


def status_of_roll(roll: Roll) -> IntentStatus:
    """Returns the status of an active roll, for rounds."""
    done = sum(phase == "restarted" for phase in roll.phases.values())
    at_turn = ", ".join(f"{broker} {roll.phases[broker]}" for broker in roll.at_turn)
    text = f"{done} of {len(roll.phases)} brokers are restarted"
    text += f"; {at_turn}" if at_turn else ""
    return IntentStatus(
        roll.id,
        "roll",
        "rolling" if roll.halted is None else "halted",
        text if roll.halted is None else f"{text}; halted: {roll.halted}",
        "Nothing to do: the roll's process goes on."
        if roll.halted is None
        else "Go on with `rebalancer roll --resume`, or give up with `rebalancer roll --cancel`.",
        roll.by,
        roll.reason,
        roll.asked_ms,
        roll.since_ms,
        roll=roll.id,
        phases=dict(roll.phases),
        record=roll.record,
    )


def statuses(intents: Intents) -> tuple[IntentStatus, ...]:
    """Returns the statuses of all intents: the roll, drains by broker, then what has ended."""
    roll = () if intents.roll is None else (status_of_roll(intents.roll),)
    drains = (status_of_drain(intents.drains[broker]) for broker in sorted(intents.drains))
    return (*roll, *drains, *intents.ended)


def from_statuses(round_statuses: tuple[IntentStatus, ...]) -> Intents:
    """The intents behind a round's statuses, as far as `accept` needs them: for a command that
    judges its record before it writes it. The limit of the roll is unknown: 1,000.
    """
    drains, roll = dict[str, Drain](), None
    for status in round_statuses:
        if (
            status.state in ("asked", "draining", "drained", "blocked")
            and status.broker is not None
        ):
            drains[status.broker] = Drain(
                status.id,
                status.broker,
                status.by,
                status.reason,
                status.asked_ms,
                status.since_ms,
                status.state,
                status.roll,
                status.until_ms,
                drained_ms=status.since_ms if status.state == "drained" else None,
            )
        elif status.state in ("rolling", "halted"):
            roll = Roll(
                status.id,
                status.by,
                status.reason,
                status.asked_ms,
                status.since_ms,
                1_000,
                dict(status.phases),
                status.record or status.id,
                status.text if status.state == "halted" else None,
            )
    ended = tuple(status for status in round_statuses if status.state in ENDED)
    return Intents(drains, roll, ended)

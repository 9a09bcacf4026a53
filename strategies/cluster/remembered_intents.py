"""The intents in a cluster's state: active drains, the active roll, and what has ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from strategies.cluster.asked_by_hand import Asked, status_of_asked
from strategies.cluster.intent_records_and_states import (
    ENDED,
    IntentStateCode,
    IntentStatus,
    RollPhase,
)
from strategies.cluster.packed_records import EarlyRecord

#: Ended and refused intents are shown for this long, and about this number of them.
_SHOWN_MS, _SHOWN = 3_600_000, 50

#: Code of the commands of a drain.
DRAIN = "drain"

DrainState = Literal["asked", "draining", "drained", "blocked"]


@dataclass(frozen=True, slots=True)
class Answers:
    """Numbers of executors' answers to a drain's commands since a bundle last left."""

    dry_runs: int = 0
    #: Refusals and failures.
    refused: int = 0
    #: Commands that expired without an answer.
    expired: int = 0
    #: Reason of the last refusal or failure.
    last: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """An active drain. Times in ms since the epoch. Fields without a comment: see `Intent`."""

    id: str
    broker: str
    by: str
    reason: str
    #: Time of the intent's record.
    asked_ms: int
    #: When this state began.
    since_ms: int
    state: DrainState = "asked"
    roll: str | None = None
    until_ms: int | None = None
    together: bool = False
    #: Number of bundles on the broker now, and the largest number so far; None before its first
    #: round.
    left: int | None = None
    total: int | None = None
    #: (Time, number of bundles left) of the last rounds.
    seen: tuple[tuple[int, int], ...] = ()
    answers: Answers = Answers()
    #: Bundles that have left as an outcome says, while the collector's note still lists them.
    gone: tuple[str, ...] = ()
    #: When the broker was first empty; None before.
    drained_ms: int | None = None
    #: Sentence, next step and estimate of the last round.
    text: str = ""
    advice: str = ""
    left_ms: int | None = None
    error_ms: int | None = None

    @property
    def was_drained(self) -> bool:
        return self.drained_ms is not None


@dataclass(frozen=True, slots=True)
class Roll:
    """The active roll. Times in ms since the epoch."""

    id: str
    by: str
    reason: str
    #: Time of the record that began it.
    asked_ms: int
    #: When its state (rolling or halted) began.
    since_ms: int
    #: Number of brokers that may be drained or restarted at a time.
    max_unavailable: int
    #: Broker → phase, in the order of the record.
    phases: Mapping[str, RollPhase]
    #: Id of the last accepted record about it.
    record: str
    #: Reason of the halt; None while it rolls.
    halted: str | None = None

    @property
    def at_turn(self) -> tuple[str, ...]:
        """The brokers that are being drained or restarted."""
        return tuple(
            broker for broker, phase in self.phases.items() if phase not in ("waiting", "restarted")
        )


@dataclass(frozen=True, slots=True)
class Intents:
    """All intents of one cluster."""

    #: Broker → its active drain.
    drains: Mapping[str, Drain] = field(default_factory=dict)
    #: The active roll, if any.
    roll: Roll | None = None
    #: Bundle → its move or split that a person or a round asked for.
    asked: Mapping[str, Asked] = field(default_factory=dict)
    #: Last statuses of intents that have ended or were refused, newest last.
    ended: tuple[IntentStatus, ...] = ()
    #: Id → time of each record that would still be believed if it came again.
    seen: Mapping[str, int] = field(default_factory=dict)
    #: Intents and notes from before the first round, which are folded after it.
    early: tuple[EarlyRecord, ...] = ()

    @property
    def moves_nothing(self) -> frozenset[str]:
        """Draining brokers whose bundles stay, because their roll has halted or restarts them."""
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


def forget_old_intents(
    intents: Intents, now_ms: int, believed_ms: int, published_ms: int
) -> Intents:
    """Removes the statuses of intents that ended an hour ago, and the ids of records that would not
    be believed if they came again. Of statuses beyond the most, those stay that no round has
    published or that a split waits for. `believed_ms`: largest distance of a believed record from
    the cluster's time; `published_ms`: time of the last round.
    """
    children = {id_ for one in intents.asked.values() for id_ in one.cut.children.values()}
    ended = [status for status in intents.ended if status.since_ms > now_ms - _SHOWN_MS]
    kept = (
        status
        for rank, status in enumerate(ended, _SHOWN - len(ended))
        if rank >= 0 or status.since_ms >= published_ms or status.id in children
    )
    seen = {id_: ts for id_, ts in intents.seen.items() if abs(ts - now_ms) <= believed_ms}
    return replace(intents, ended=tuple(kept), seen=seen)


def move_intents_back(intents: Intents, now_ms: int) -> Intents:
    """Returns the intents after the cluster's time went back to `now_ms`: later times become now,
    and the measurements behind estimates go.
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
    asked = {
        bundle: replace(one, since_ms=min(one.since_ms, now_ms))
        for bundle, one in intents.asked.items()
    }
    return replace(intents, drains=drains, roll=roll, asked=asked, ended=ended)


def finish_drain(
    intents: Intents, broker: str, now_ms: int, *, how: str, done: bool | None = None
) -> Intents:
    """Ends the drain of a broker, as done or as cancelled. `how`: a sentence without a full stop.
    `done`: None = done if the broker has been drained.
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
    """Removes the drain of a broker and keeps its last status: `state`, `text`, `advice`."""
    status = status_of_drain(intents.drains[broker])
    last = _last_status(status, now_ms, state, text=text, advice=advice)
    drains = {name: drain for name, drain in intents.drains.items() if name != broker}
    return replace(intents, drains=drains, ended=(*intents.ended, last))


def with_asked(intents: Intents, *asked: Asked) -> Intents:
    """Adds or replaces moves and splits that were asked for."""
    return replace(intents, asked={**intents.asked, **{one.bundle: one for one in asked}})


def end_asked(
    intents: Intents, bundle: str, now_ms: int, state: IntentStateCode, *, text: str, advice: str
) -> Intents:
    """Removes a move or a split that was asked for and keeps its last status; not that of a round's
    split, whose command and outcome say the same in every round that tries it again.
    """
    ends = intents.asked[bundle]
    asked = {name: one for name, one in intents.asked.items() if name != bundle}
    intents = replace(intents, asked=asked)
    if ends.action == "split" and not ends.is_by_hand:
        return intents
    last = _last_status(status_of_asked(ends), now_ms, state, text=text, advice=advice)
    return replace(intents, ended=(*intents.ended, last))


def _last_status(
    status: IntentStatus, now_ms: int, state: IntentStateCode, *, text: str, advice: str
) -> IntentStatus:
    """Returns the status of an intent that ends; nothing is left to estimate."""
    return replace(
        status,
        state=state,
        text=text,
        advice=advice,
        since_ms=now_ms,
        left_ms=None,
        error_ms=None,
    )


def status_of_drain(drain: Drain) -> IntentStatus:
    """Returns the status of an active drain for the record of a round."""
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
    """Returns the status of an active roll for the record of a round."""
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
    """Returns the statuses of all intents: the roll, drains by broker, moves and splits by bundle,
    then what has ended.
    """
    roll = () if intents.roll is None else (status_of_roll(intents.roll),)
    drains = (status_of_drain(intents.drains[broker]) for broker in sorted(intents.drains))
    asked = (_status_of(intents.asked[bundle], intents) for bundle in sorted(intents.asked))
    return (*roll, *drains, *asked, *intents.ended)


def _status_of(asked: Asked, intents: Intents) -> IntentStatus:
    """Returns the status of a move or a split; that of a split says what objects to a child."""
    status = status_of_asked(asked)
    children = (intents.asked.get(child) for child in asked.cut.children)
    waits = [one for one in children if one is not None and one.state == "blocked"]
    if waits:
        text = f"it is split, but {waits[0].bundle} waits: {waits[0].text}"
        status = replace(status, text=text[:300], advice=waits[0].advice)
    return status


def intents_of_statuses(round_statuses: tuple[IntentStatus, ...]) -> Intents:
    """Rebuilds the intents from a round's statuses, as far as `accept` needs them: a command
    checks its record with them before it writes it. The record of a round does not have the roll's
    limit, so `max_unavailable` is 1,000, which refuses nothing.
    """
    drains, roll, asked = dict[str, Drain](), None, dict[str, Asked]()
    for status in round_statuses:
        if status.bundle is not None and status.state in (
            "asked",
            "splitting",
            "moving",
            "blocked",
        ):
            asked[status.bundle] = Asked(
                status.id,
                status.bundle,
                status.broker,
                status.by,
                status.reason,
                status.asked_ms,
                status.since_ms,
                status.state,
                action="split" if status.action == "split" else "move",
            )
        elif (
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
    return Intents(drains, roll, asked, ended)

"""Accepts or refuses the record of an intent. The fold applies these rules to each record, and a
command applies them before it writes one.

Pure: takes the intents so far, the brokers, the record and the time; returns the new intents or the
refusal.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from strategies.cluster.intent_records_and_states import (
    Intent,
    IntentAction,
    RollPhase,
    status_of_refused,
)
from strategies.cluster.remembered_intents import (
    Drain,
    Intents,
    Roll,
    finish_drain,
    status_of_roll,
)
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.fold.accept_by_hand import accept_by_hand
from strategies.fold.intent_refusals import (
    MOST_NAMED,
    Answer,
    IntentFleet,
    IntentRefusal,
    refuse_unfit,
)

#: Maximum number of records about one cluster whose ids are remembered (`Intents.seen`); persons
#: write far fewer.
_MOST_RECORDS = 1_000
#: Code of the refusal of further records.
TOO_MANY = "too-many-intents"
_ROLL_WAITS = "Wait until the roll has ended, or end it with `rebalancer roll --cancel`."


def accept(intents: Intents, fleet: IntentFleet, intent: Intent, now_ms: int) -> Answer:
    """Returns the intents after a record, or its refusal. `now_ms`: the cluster's time (ms)."""
    if len(intents.seen) >= _MOST_RECORDS:
        return IntentRefusal(
            TOO_MANY,
            f"{len(intents.seen):,} intents have come within minutes",
            "Ask for the rest in some minutes; if no person asked, find the program that did.",
        )
    rule = _OF_ROLL.get(intent.action)
    if rule is None:
        answer = _RULES[intent.action](intents, fleet, intent, now_ms)
    else:
        roll = _find_roll(intents, intent)
        answer = roll if isinstance(roll, IntentRefusal) else rule(intents, roll, intent, now_ms)
    if isinstance(answer, Intents) and answer.roll is not None and intent.roll == answer.roll.id:
        answer = replace(answer, roll=replace(answer.roll, record=intent.id))
    return answer


def add_refusal(intents: Intents, intent: Intent, why: IntentRefusal, now_ms: int) -> Intents:
    """Adds the status of a refused record to the intents."""
    status = status_of_refused(intent, now_ms, text=f"{why.text} [{why.code}]", advice=why.advice)
    return replace(intents, ended=(*intents.ended, status))


def _accept_drain(intents: Intents, fleet: IntentFleet, intent: Intent, now_ms: int) -> Answer:
    broker = intent.broker or ""
    why = (
        refuse_unfit(broker, fleet)
        or _refuse_second_drain(intents, broker, now_ms)
        or _refuse_beside_others(intents, intent, now_ms)
        or _refuse_last_broker(intents, fleet, broker)
    )
    if why is None and intent.until_ms is not None and intent.until_ms <= now_ms:
        why = IntentRefusal(
            "until-passed",
            f"the drain of {broker} would have ended {age(now_ms - intent.until_ms)} ago",
            "Name a later time, and check the clock of the machine that wrote the record.",
        )
    if why is not None:
        return why
    drain = Drain(
        intent.id,
        broker,
        intent.by,
        intent.reason,
        intent.ts,
        now_ms,
        roll=intent.roll,
        until_ms=intent.until_ms,
        together=intent.together,
        text="the next round begins with it",
        advice="Nothing to do.",
    )
    after, roll = replace(intents, drains={**intents.drains, broker: drain}), intents.roll
    if roll is None or intent.roll is None:
        return after
    return _set_phase(after, roll, broker, "draining")


def _refuse_second_drain(intents: Intents, broker: str, now_ms: int) -> IntentRefusal | None:
    drain = intents.drains.get(broker)
    if drain is None:
        return None
    return IntentRefusal(
        "already-drained",
        f"{broker} is being drained already: {drain.by} asked for it "
        f"{age(now_ms - drain.asked_ms)} ago ({drain.reason})",
        "Nothing to do: `rebalancer intents` shows its progress.",
    )


def _refuse_beside_others(intents: Intents, intent: Intent, now_ms: int) -> IntentRefusal | None:
    """Returns the refusal of a drain that may not begin beside the other drains and the roll."""
    roll, broker = intents.roll, intent.broker or ""
    if intent.roll is not None:
        mine = _find_roll(intents, intent)
        if isinstance(mine, IntentRefusal):
            return mine
        why = _refuse_if_halted(mine) or _refuse_wrong_phase(mine, broker, "waiting")
        if why is None and len(mine.at_turn) >= mine.max_unavailable:
            why = IntentRefusal(
                "too-many-unavailable",
                f"{', '.join(mine.at_turn)} of the roll: no more than {mine.max_unavailable} "
                "brokers may be drained or restarted at a time",
                "Wait until one of them has restarted.",
            )
        if why is not None:
            return why
    elif roll is not None and roll.phases.get(broker, "restarted") != "restarted":
        return IntentRefusal(
            "part-of-roll",
            f"{broker} belongs to the roll of {roll.by} ({roll.reason}), which drains it",
            _ROLL_WAITS,
        )
    elif roll is not None and roll.halted is None and not intent.together:
        return IntentRefusal(
            "another-roll",
            f"a roll is active: {roll.by} began it {age(now_ms - roll.asked_ms)} ago "
            f"({roll.reason})",
            f"{_ROLL_WAITS} Or drain beside it with --together.",
        )
    others = [
        drain
        for drain in intents.drains.values()
        if intent.roll is None or (drain.roll != intent.roll and not drain.together)
    ]
    return _refuse_beside(others[0], now_ms) if others and not intent.together else None


def _refuse_beside(other: Drain, now_ms: int) -> IntentRefusal:
    return IntentRefusal(
        "another-drain",
        f"{other.broker} is being drained: {other.by} asked for it "
        f"{age(now_ms - other.asked_ms)} ago ({other.reason})",
        f"Wait, end it with `rebalancer undrain {other.broker}`, or drain both with --together.",
    )


def _refuse_last_broker(intents: Intents, fleet: IntentFleet, broker: str) -> IntentRefusal | None:
    takers = sorted({*fleet.live} - {*fleet.excluded} - {*intents.drains} - {broker})
    if takers:
        return None
    return IntentRefusal(
        "last-broker",
        f"{broker} is the last broker that may take bundles: without it there is none",
        "Start or undrain another broker first.",
    )


def _accept_undrain(intents: Intents, fleet: IntentFleet, intent: Intent, now_ms: int) -> Answer:
    broker = intent.broker or ""
    drain = intents.drains.get(broker)
    if drain is None:
        others = ", ".join(sorted(intents.drains)[:MOST_NAMED])
        return IntentRefusal(
            "not-drained",
            f"{broker} is not being drained" + (f"; those that are: {others}" if others else ""),
            "Nothing to do: `rebalancer intents` shows what is active.",
        )
    roll = intents.roll
    if roll is not None and drain.roll == roll.id != intent.roll:
        return IntentRefusal(
            "part-of-roll",
            f"{broker} belongs to the roll of {roll.by} ({roll.reason})",
            _ROLL_WAITS,
        )
    after = finish_drain(intents, broker, now_ms, how=f"{intent.by} ended it: {intent.reason}")
    if roll is not None and drain.roll == roll.id:
        return _set_phase(after, roll, broker, "waiting")
    return after


def _accept_roll(intents: Intents, fleet: IntentFleet, intent: Intent, now_ms: int) -> Answer:
    roll = intents.roll
    if roll is not None:
        return IntentRefusal(
            "another-roll",
            f"a roll is active: {roll.by} began it {age(now_ms - roll.asked_ms)} ago "
            f"({roll.reason})",
            _ROLL_WAITS,
        )
    for broker in intent.brokers:
        why = refuse_unfit(broker, fleet) or _refuse_second_drain(intents, broker, now_ms)
        if why is not None:
            return why
    alone = [drain for drain in intents.drains.values() if not drain.together]
    if alone:  # the first drain of the roll would be refused
        return _refuse_beside(alone[0], now_ms)
    willing = {*fleet.live} - {*fleet.excluded} - {*intents.drains}
    if len(willing) <= intent.max_unavailable:
        return IntentRefusal(
            "last-broker",
            f"{len(willing)} brokers may take bundles, and the roll may drain "
            f"{intent.max_unavailable} of them at a time: there would be none left",
            "Start more brokers, or lower --max-unavailable.",
        )
    phases: Mapping[str, RollPhase] = dict.fromkeys(intent.brokers, "waiting")
    began = Roll(
        intent.id,
        intent.by,
        intent.reason,
        intent.ts,
        now_ms,
        intent.max_unavailable,
        phases,
        intent.id,
    )
    return replace(intents, roll=began)


def _accept_restarting(intents: Intents, roll: Roll, intent: Intent, now_ms: int) -> Answer:
    broker = intent.broker or ""
    why = _refuse_if_halted(roll) or _refuse_wrong_phase(roll, broker, "drained", "restarting")
    if why is not None:
        return why
    drain = intents.drains.get(broker)
    if drain is not None:
        # A restart of the roll begins after this; an earlier one is a crash.
        drains = {**intents.drains, broker: replace(drain, since_ms=now_ms)}
        intents = replace(intents, drains=drains)
    return _set_phase(intents, roll, broker, "restarting")


def _accept_restarted(intents: Intents, roll: Roll, intent: Intent, now_ms: int) -> Answer:
    broker = intent.broker or ""
    why = _refuse_wrong_phase(roll, broker, "restarting")
    if why is not None:
        return why
    if broker in intents.drains:
        how = "the broker has restarted"
        intents = finish_drain(intents, broker, now_ms, how=how, done=True)
    return _set_phase(intents, roll, broker, "restarted")


def _accept_halt(intents: Intents, roll: Roll, intent: Intent, now_ms: int) -> Answer:
    return replace(intents, roll=replace(roll, halted=intent.reason, since_ms=now_ms))


def _accept_resume(intents: Intents, roll: Roll, intent: Intent, now_ms: int) -> Answer:
    since_ms = roll.since_ms if roll.halted is None else now_ms
    return replace(intents, roll=replace(roll, halted=None, since_ms=since_ms))


def _accept_end(intents: Intents, roll: Roll, intent: Intent, now_ms: int) -> Answer:
    for broker in sorted(intents.drains):
        if intents.drains[broker].roll == roll.id:
            how = f"the roll has ended: {intent.reason}"
            intents = finish_drain(intents, broker, now_ms, how=how)
    done = all(phase == "restarted" for phase in roll.phases.values())
    status = replace(
        status_of_roll(replace(roll, record=intent.id)),
        state="done" if done else "cancelled",
        text=f"{intent.by} ended it: {intent.reason}",
        advice="Nothing to do." if done else "Begin another roll for the brokers that are left.",
        since_ms=now_ms,
    )
    return replace(intents, roll=None, ended=(*intents.ended, status))


def _find_roll(intents: Intents, intent: Intent) -> Roll | IntentRefusal:
    """Returns the active roll that a record belongs to, or the refusal. Two persons may end a roll
    at the same time: the refusal of the second record names the person of the first one.
    """
    roll = intents.roll
    if roll is None or roll.id != intent.roll:
        ended = next((status for status in intents.ended if status.id == intent.roll), None)
        text = f"the record to {intent.in_words} is about a roll that is not active"
        if ended is not None:
            text = f"the roll of {ended.by} ({ended.reason}) has ended: {ended.text}"
        return IntentRefusal(
            "no-such-roll", text, "Nothing to do: `rebalancer intents` shows what is active."
        )
    if intent.broker is None or intent.broker in roll.phases:
        return roll
    return IntentRefusal(
        "not-in-roll",
        f"{intent.broker} is no broker of the roll of {roll.by} ({roll.reason})",
        f"The roll has {', '.join(roll.phases)}.",
    )


def _refuse_if_halted(roll: Roll) -> IntentRefusal | None:
    if roll.halted is None:
        return None
    return IntentRefusal(
        "roll-halted",
        f"the roll has halted: {roll.halted}",
        "Go on with `rebalancer roll --resume`, or give up with `rebalancer roll --cancel`.",
    )


def _refuse_wrong_phase(roll: Roll, broker: str, *needed: RollPhase) -> IntentRefusal | None:
    if roll.phases[broker] in needed:
        return None
    return IntentRefusal(
        "wrong-phase",
        f"{broker} is {roll.phases[broker]} in this roll; the record needs it {needed[0]}",
        "Two processes may run the same roll: stop one, and go on with `rebalancer roll --resume`.",
    )


def _set_phase(intents: Intents, roll: Roll, broker: str, phase: RollPhase) -> Intents:
    return replace(intents, roll=replace(roll, phases={**roll.phases, broker: phase}))


_RULES: Mapping[IntentAction, Callable[[Intents, IntentFleet, Intent, int], Answer]] = {
    "drain": _accept_drain,
    "undrain": _accept_undrain,
    "roll": _accept_roll,
    "move": accept_by_hand,
    "split": accept_by_hand,
}
#: Rules of records about the active roll.
_OF_ROLL: Mapping[IntentAction, Callable[[Intents, Roll, Intent, int], Answer]] = {
    "restarting": _accept_restarting,
    "restarted": _accept_restarted,
    "halt": _accept_halt,
    "resume": _accept_resume,
    "end": _accept_end,
}

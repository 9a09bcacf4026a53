"""Rolls as rounds, looks and a process's memory see them: fresh objects, one line per fact."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from strategies.cluster.intent_records_and_states import (
    Intent,
    IntentAction,
    IntentStatus,
    RollPhase,
)
from strategies.cluster.model import Round
from strategies.cluster.round_figures import RoundState
from strategies.roll.next_step import next_step
from strategies.roll.roll_state_and_evidence import (
    Observation,
    RestartRun,
    RollRules,
    RollState,
    RollStep,
)
from strategies.states_and_advice_of_codes import StateCode
from tests.unit.test_wire_encoding import ROUND

A, B, C, D = "a:1", "b:1", "c:1", "d:1"
ROLL = "0" * 32
#: Some hours after the epoch; brokers run since the epoch's beginning.
NOW = 10_000_000
STARTED = 1_000
ROUND_MS = 60_000
#: Phases of three brokers, and runs of a restart command.
Phases = Mapping[str, RollPhase]
ALL_WAIT: Phases = dict.fromkeys((A, B, C), "waiting")
DONE: Phases = dict.fromkeys((A, B, C), "restarted")
NEXT: Phases = {A: "restarted", B: "waiting", C: "waiting"}
LAST: Phases = {A: "waiting", B: "restarted", C: "restarted"}
ONE_DRAINS: Phases = {A: "draining", B: "waiting", C: "waiting"}
ONE_IS_EMPTY: Phases = {A: "drained", B: "waiting", C: "waiting"}
ONE_GOES: Phases = {A: "restarting", B: "waiting", C: "waiting"}
RAN = {A: RestartRun(NOW - 20_000)}
LONG_AGO = {A: RestartRun(NOW - 600_000)}


def status(action: IntentAction, state: str, **given: Any) -> IntentStatus:
    """What a round says about the roll, or about a record of its process."""
    made: dict[str, Any] = {
        "id": ROLL,
        "action": action,
        "state": state,
        "text": "the roll goes on",
        "advice": "Nothing to do.",
        "by": "anna",
        "reason": "upgrade",
        "asked_ms": NOW - 600_000,
        "since_ms": NOW - 200_000,
        "record": "mine",
    }
    return IntentStatus(**{**made, **given})


def drain_of(broker: str, state: str, text: str = "3 of 9 are left", **given: Any) -> IntentStatus:
    made = {"id": f"drain-{broker}", "broker": broker, "roll": ROLL, "record": None, **given}
    return status("drain", state, text=text, **made)


def round_of(
    phases: Mapping[str, RollPhase],
    more: Sequence[IntentStatus] = (),
    *,
    code: StateCode = "balanced",
    text: str = "nothing has to move",
    advice: str = "Nothing to do.",
    brokers: Sequence[str] | None = None,
    stale: Mapping[str, str] = {},
    ts: int = NOW - ROUND_MS,
    **given: Any,
) -> Round:
    """A round that knows the roll in these phases and, without `more`, a drain of each broker that
    is at work. `brokers`: with figures; `given`: of the roll's status.
    """
    roll = status("roll", **{"state": "rolling", **given}, phases=dict(phases))
    at_work = [one for one in phases if phases[one] not in ("waiting", "restarted")]
    drains = [
        drain_of(one, "draining" if phases[one] == "draining" else "drained") for one in at_work
    ]
    names = tuple(one for one in brokers or phases if one not in stale)
    return replace(
        ROUND,
        ts=ts,
        brokers=names,
        usage=dict.fromkeys(names, 0.5),
        stale=stale,
        state=RoundState(code, text, advice),
        intents=(roll, *(more or drains)),
    )


def rolling(phases: Mapping[str, RollPhase], **given: Any) -> tuple[RollState, Observation]:
    """A process of a roll at rest and what it sees: all brokers live, the last one leads, and all
    its records have been answered. `given`: fields of the rules, of the state (with four `rounds`
    unless they are given), of what is seen, and of each round.
    """
    taken = [
        {one.name: given.pop(one.name) for one in fields(made) if one.name in given}
        for made in (RollRules, RollState, Observation)
    ]
    brokers = tuple(phases)
    seen = Observation(NOW, brokers, brokers[-1], brokers, (), dict.fromkeys(brokers, STARTED))
    state = RollState(
        ROLL,
        NOW - 30_000,
        RollRules(**taken[0]),
        ids={"mine"},
        in_charge=True,
        rounds=[round_of(phases, **given)] * 4,
    )
    return replace(state, **taken[1]), replace(seen, **taken[2])


def step_of(phases: Mapping[str, RollPhase], **given: Any) -> RollStep:
    return next_step(*rolling(phases, **given))


def intent(action: IntentAction, broker: str | None = None, id_: str = "mine") -> Intent:
    return Intent("c", NOW, id_, action, "anna", "roll", broker, roll=ROLL)

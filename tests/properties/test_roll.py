"""A roll, whatever its process sees: it always has a step, restarts nobody that no round has
acknowledged, and never has more brokers in work than it may.
"""

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from strategies.cluster.intent_contract import RollPhase
from strategies.cluster.model import Round
from strategies.roll.next_step import next_step
from strategies.roll.roll_state import (
    IN_WORK,
    EndProcess,
    HaltRoll,
    KeepWaiting,
    Observation,
    RestartRun,
    RollState,
    RunRestart,
    WriteRecord,
)
from tests.world.rolls import NOW, A, B, C, D, intent, rolling, round_of, status

BROKERS = (A, B, C, D)
PHASES: tuple[RollPhase, ...] = ("waiting", "draining", "drained", "restarting", "restarted")
some = st.lists(st.sampled_from(BROKERS), unique=True).map(tuple)
times = st.integers(NOW - 900_000, NOW)
by_broker = st.dictionaries(st.sampled_from(BROKERS), times, max_size=4)
runs = st.builds(
    RestartRun, times, times, st.booleans(), st.sampled_from([None, None, "exit code 1"])
)


def rarely(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Nothing goes on unless most of it is as usual."""
    return st.sampled_from([usual] * 12 + [*others])


@st.composite
def processes(draw: st.DrawFn) -> tuple[RollState, Observation]:
    phases = {one: draw(st.sampled_from(PHASES)) for one in BROKERS[: draw(st.integers(1, 4))]}
    refused = [status("drain", "refused", id=draw(rarely("theirs", "mine")))]

    def drawn_round(number: int) -> Round:
        return round_of(
            phases,
            [*round_of(phases).intents[1:], *refused],
            ts=NOW - 60_000 * (4 - number),
            code=draw(rarely("balanced", "acting", "yielding", "cannot-help")),
            state=draw(rarely("rolling", "halted", "done", "cancelled")),
            record=draw(rarely("mine", None, "theirs")),
            stale=draw(rarely({}, {B: "silent"})),
        )

    given: dict[str, Any] = {
        "rounds": [drawn_round(number) for number in range(draw(st.integers(1, 4)))],
        "max_unavailable": draw(st.integers(1, 3)),
        "by_hand": draw(st.booleans()),
        "even": draw(st.booleans()),
        "pending": draw(rarely(None, intent("drain", A))),
        "in_charge": draw(st.booleans()),
        "due": draw(st.sets(st.sampled_from(BROKERS))),
        "ran": draw(st.dictionaries(st.sampled_from(BROKERS), runs, max_size=2)),
        "missing_since_ms": draw(by_broker),
        "gone_ms": draw(by_broker),
        "started_ms": draw(by_broker),
        "live": draw(st.one_of(rarely(BROKERS), some)),
        "leader": draw(st.sampled_from([None, *BROKERS])),
        "reading": draw(st.one_of(rarely(BROKERS), some)),
        "frozen": draw(rarely((), (B,))),
        "unowned": draw(rarely((), ("t/n/0x0_0x1",))),
        "readable": draw(rarely(True, False)),
    }
    return rolling(phases, **given)


@pytest.mark.heavy
@given(process=processes())
def test_whatever_is_seen_there_is_one_step_and_it_keeps_the_order(
    process: tuple[RollState, Observation],
) -> None:
    state, seen = process
    step = next_step(state, seen)
    assert step == next_step(state, seen)
    event(getattr(step, "action", type(step).__name__))
    match step:
        case KeepWaiting(text):
            assert text
        case HaltRoll(text, advice):
            assert text
            assert "rebalancer roll --resume" in advice
        case EndProcess(code, text, advice):
            assert all((code, text, advice))
        case RunRestart(broker):
            goes_on(state, seen)
            assert (state.phases[broker], broker in state.due) == ("restarting", True)
        case WriteRecord():
            goes_on(state, seen)
            in_order(state, seen, step)


def goes_on(state: RollState, seen: Observation) -> None:
    """Nothing is wrong that would forbid a step, and the process is in charge."""
    assert state.pending is None
    assert (seen.frozen, seen.unowned, seen.readable) == ((), (), True)
    assert {one for one in state.phases if state.phases[one] != "restarting"} <= {
        *(seen.live or ())
    }
    newest = state.rounds[-1]
    assert newest.state is not None
    assert newest.state.code != "yielding"
    assert state.status is not None
    assert (state.status.state, state.status.record in (None, "mine")) == ("rolling", True)


def in_order(state: RollState, seen: Observation, step: WriteRecord) -> None:
    broker, work = str(step.broker), state.brokers(*IN_WORK)
    match step.action:
        case "drain":
            assert state.phases[broker] == "waiting"
            assert len(work) < state.rules.max_unavailable
            assert step.together == bool(work)
            assert broker != seen.leader or (state.brokers("waiting") == [broker] and not work)
            stale = {*state.rounds[-1].stale} & {*(seen.live or ())}
            assert stale <= {*state.brokers("restarting")}
        case "restarting":
            assert state.phases[broker] == "drained"
        case "restarted":
            assert state.phases[broker] == "restarting"
            assert broker in seen.reading
            assert state.has_restarted(broker)
        case _:
            assert step.action == "end"
            assert {*state.phases.values()} == {"restarted"}

"""What a roll's process remembers between its steps; the steps themselves are in tests/golden."""

from dataclasses import replace

import pytest

from strategies.roll.next_step import next_step
from strategies.roll.roll_state_and_evidence import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    Observation,
    RestartRun,
    RollState,
    RunRestart,
)
from tests.world.rolls import (
    ALL_WAIT,
    DONE,
    NOW,
    ONE_GOES,
    ONE_IS_EMPTY,
    ROLL,
    ROUND_MS,
    A,
    B,
    C,
    intent,
    rolling,
    round_of,
    status,
)


def test_no_restart_without_an_acknowledgement_of_this_process() -> None:
    state, seen = rolling(ONE_IS_EMPTY)
    state.write(intent("restarting", A, "announced"))
    assert isinstance(next_step(state, seen), KeepWaiting)
    state.read(round_of(ONE_GOES, record="mine"))
    assert isinstance(next_step(state, seen), KeepWaiting), "another record is no answer"
    state.read(round_of(ONE_GOES, record="announced"))
    assert next_step(state, seen) == RunRestart(A)
    state.begin_restart(A, NOW)
    assert isinstance(next_step(state, seen), KeepWaiting)
    assert state.ran == {A: RestartRun(NOW, 1_000, running=True)}
    state.end_command(A, "exit code 1")
    assert isinstance(next_step(state, seen), HaltRoll)


@pytest.mark.parametrize("pending", [None, intent("drain", A)])
def test_a_refused_record_halts_the_roll_with_its_reason(pending: object) -> None:
    """Also a drain that was accepted, and refused by its first round."""
    refused = status("drain", "refused", id="mine", text="no other broker", advice="Go.")
    state, seen = rolling(ALL_WAIT, pending=pending, rounds=[])
    state.read(round_of(ALL_WAIT, [refused]))
    found = next_step(state, seen)
    assert isinstance(found, HaltRoll)
    assert found.text == "the record to drain was refused: no other broker"
    assert found.advice.startswith("Go. Then `rebalancer roll --resume`")


def test_an_answer_that_five_rounds_do_not_bring_never_comes() -> None:
    """Rounds from before the record are no answer, also where the cluster's clock is ahead."""
    state, seen = rolling(ALL_WAIT, rounds=[round_of(ALL_WAIT, ts=NOW + 5)] * 8)
    state.write(replace(intent("drain", A, "new"), ts=NOW - 90_000))
    for number in range(1, 6):
        assert isinstance(next_step(state, seen), KeepWaiting)
        state.read(round_of(ALL_WAIT, ts=NOW + 5 + number))
    found = next_step(state, seen)
    assert isinstance(found, EndProcess)
    assert found.code == "unanswered"


def test_the_process_notes_since_when_it_sees_what_is_wrong() -> None:
    """By its own clock; what it cannot read is no evidence."""
    state = RollState(ROLL, 0)
    state.read(round_of(ALL_WAIT, stale={"e:1": "silent"}))
    state.look(Observation(10, (A, B), unowned=("x",)))
    assert (state.missing_since_ms, state.gone_ms) == ({C: 10, "e:1": 10}, {C: 10, "e:1": 10})
    state.look(Observation(15, None, readable=False))
    assert (state.missing_since_ms, state.unowned_since_ms) == ({C: 10, "e:1": 10}, {"x": 10})
    state.look(Observation(20, (A, "e:1"), readable=False, unowned=("x",)))
    assert (state.missing_since_ms, state.unreadable_since_ms) == ({B: 20, C: 10}, 15)
    assert state.gone_ms == {B: 20, C: 20, "e:1": 10}
    for _ in range(9):
        state.read(round_of({A: "restarted"}))
    state.look(Observation(30, (A,)))
    assert state.missing_since_ms == {B: 20, C: 10}, "rounds have forgotten them"
    assert (state.unowned_since_ms, state.unreadable_since_ms) == ({}, None)
    assert state.restarted_since_ms == {A: 30}
    state.look(Observation(40, (A, B, C)))
    assert (state.missing_since_ms, state.restarted_since_ms) == ({}, {A: 30})


def test_as_many_rounds_are_kept_as_the_rules_need() -> None:
    state, _ = rolling(DONE, even_rounds=12, rounds=[])
    for number in range(20):
        state.read(round_of(DONE, ts=number * ROUND_MS))
    assert state.in_a_row(lambda done: done.ts > 0) == 12

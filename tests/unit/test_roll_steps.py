"""The next step of a roll: one broker after the other, the leader last, and a halt at the first
thing that looks wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.intent_contract import RollPhase
from strategies.reason_codes import StateCode
from strategies.roll.next_step import next_step
from strategies.roll.roll_state import Observation, RestartRun, RollState
from strategies.roll.steps import EndProcess, HaltRoll, KeepWaiting, RunRestart, WriteRecord
from tests.world.rolls import (
    NOW,
    ROLL,
    ROUND_MS,
    A,
    B,
    C,
    D,
    drain_of,
    intent,
    rolling,
    round_of,
    status,
    step_of,
)

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


def case(sentence: str, phases: Phases, *expected: Any, **given: Any) -> Any:
    return pytest.param(phases, given, *expected, id=sentence)


@pytest.mark.parametrize(
    ("phases", "given", "action", "broker"),
    [
        case("the first broker by name is drained first", ALL_WAIT, "drain", A),
        case("the leader is not the first", ALL_WAIT, "drain", B, leader=A),
        case("the leader is the last", LAST, "drain", A, leader=A),
        case("nobody has to lead when one is left", LAST, "drain", A, leader=None),
        case("a drained broker is restarted", ONE_IS_EMPTY, "restarting", A),
        case("a broker that was gone and is back is restarted", ONE_GOES, "restarted", A, ran=RAN,
             gone_ms={A: NOW - 5_000}),
        case("a broker that came back between two looks is restarted", ONE_GOES, "restarted", A,
             ran={A: RestartRun(NOW - 20_000, started_before_ms=500)},
             started_ms={A: NOW - 9_000}),
        case("a broker has restarted since the process before died", ONE_GOES, "restarted", A,
             started_ms={A: NOW - 100_000}),
        case("a broker has gone and come back since this process looks", ONE_GOES, "restarted", A,
             gone_ms={A: NOW - 3_000}),
        case("the next one follows when two rounds have figures of the last", NEXT, "drain", B),
        case("a person wants a restart again that is over", ALL_WAIT, "drain", A, due={A}),
        case("the roll ends when the cluster is even", DONE, "end", None),
        case("the roll ends at once if it need not be even", DONE, "end", None, even=False,
             code="acting"),
    ],
)  # fmt: skip
def test_a_record_is_written(
    phases: Phases, given: dict[str, Any], action: str, broker: str | None
) -> None:
    found = step_of(phases, **given)
    assert isinstance(found, WriteRecord), found
    assert (found.action, found.broker) == (action, broker)


@pytest.mark.parametrize(
    ("phases", "given", "says"),
    [
        case("without a leader nobody knows who is last", ALL_WAIT,
             "waits until the cluster has a leader", leader=None),
        case("one broker at a time", ONE_DRAINS, f"{A}: 3 of 9 are left"),
        case("it says what moves wait for", ONE_DRAINS, "; plan 1.2-ab waits for approval",
             obstacle="plan 1.2-ab waits for approval"),
        case("the leader waits for the others", {A: "draining", B: "restarted", C: "waiting"},
             f"{A}: 3 of 9", max_unavailable=2),
        case("two at a time are no more than two",
             {A: "draining", B: "restarting", C: "waiting"}, f"restart {B} now",
             max_unavailable=2, by_hand=True),
        case("a broker that has not gone is waited for", ONE_GOES,
             f"waits for {A} to go and come back: 20 s of at most 10 min", ran=RAN),
        case("a start before the command is not its effect", ONE_GOES, "to go and come back",
             ran={A: RestartRun(NOW - 20_000, NOW - 60_000)}, started_ms={A: NOW - 60_000}),
        case("a broker that is not listed is not back", ONE_GOES, f"waits for {A} to come back",
             ran=RAN, gone_ms={A: NOW}, live=(B, C)),
        case("a broker that reads nothing is not back", ONE_GOES, f"waits for {A} to come back",
             ran=RAN, gone_ms={A: NOW}, reading=(B, C)),
        case("a broker that started between two looks has all its time", ONE_GOES,
             "to come back and read metadata: 20 s", ran=RAN, reading=(B, C), since_ms=0,
             started_ms={A: NOW - 9_000}),
        case("a command that runs on is waited for", ONE_GOES, "the end of its restart command",
             ran={A: RestartRun(NOW - 20_000, running=True)}, gone_ms={A: NOW}),
        case("by hand a person has time to begin", ONE_GOES,
             f"restart {A} now; waits for it to go and come back", ran={A: RestartRun(0)},
             by_hand=True, since_ms=0),
        case("by hand the time counts from when the broker is gone", ONE_GOES, ": 7 s of at most",
             ran={A: RestartRun(0)}, by_hand=True, live=(B, C), missing_since_ms={A: NOW - 7_000}),
        case("a restart of a dead process may be under way", ONE_GOES, "waits 30 s more"),
        case("what is not seen is no evidence", ONE_GOES, "waits 30 s more", started_ms={}),
        case("a restart of a dead process goes on", ONE_GOES, "to come back", live=(B, C),
             missing_since_ms={A: NOW - 3_000}),
        case("one round with figures of the last one is not enough", NEXT,
             f"waits for 2 rounds with fresh figures of {A}",
             rounds=[round_of(ONE_GOES), round_of(NEXT)]),
        case("a round without figures of it begins anew", DONE, f"with fresh figures of {B}",
             rounds=[round_of(DONE), round_of(DONE, stale={B: "silent"}), round_of(DONE)]),
        case("nor is a drained broker restarted meanwhile",
             {A: "restarted", B: "drained", C: "waiting"}, f"with fresh figures of {A}",
             max_unavailable=2, stale={A: "silent"}),
        case("a broker that takes bundles needs figures", NEXT,
             f"waits for fresh figures of {C}: no report", stale={C: "no report"}),
        case("a drain of a broker that has withdrawn its figures is refused", NEXT,
             f"waits for a round that knows {C}",
             rounds=[round_of(NEXT)] * 2 + [round_of(NEXT, brokers=(A, B))] * 2),
        case("a restart that is due waits while something is wrong", ONE_GOES, "takes no step",
             due={A}, live=(A, B)),
        case("a process that resumes does not yield to the dead", ALL_WAIT,
             "answers the record `resume`; the newest round is 60 s old", record="theirs",
             pending=intent("resume"), in_charge=False),
        case("there may be no round", ALL_WAIT, "`drain`; none yet", pending=intent("drain", A),
             rounds=[]),
        case("a roll that no round knows is waited for", ALL_WAIT,
             "waits for a round that knows the roll", roll="f" * 32),
        case("it waits until the cluster has been even for some rounds", DONE,
             "waits until the load is even in 4 rounds in a row: nothing has to move",
             rounds=[round_of(DONE, code="acting"), *[round_of(DONE)] * 3]),
        case("even rounds from before the last restart do not count", DONE,
             "until the load is even",
             rounds=[*[round_of({**DONE, A: "restarting"})] * 2, *[round_of(DONE)] * 3]),
        case("it waits while moves may help", DONE, "until the load is even", code="acting"),
    ],
)  # fmt: skip
def test_it_waits(phases: Phases, given: dict[str, Any], says: str) -> None:
    found = step_of(phases, **given)
    assert isinstance(found, KeepWaiting), found
    assert says in found.text


@pytest.mark.parametrize(
    ("phases", "given", "says", "advises"),
    [
        case("a command that fails", ONE_GOES, f"the restart of {A} failed: exit code 5",
             f"--restart-again {A}", ran={A: RestartRun(NOW, failed="exit code 5")}),
        case("a broker that does not go", ONE_GOES, f"{A} did not come back within 10 min",
             f"--restart-again {A}", ran=LONG_AGO),
        case("a broker that stays away", ONE_GOES, f"{A} did not come back within 10 min",
             "Look at its log", ran=LONG_AGO, live=(B, C)),
        case("a broker that never reads", ONE_GOES, f"{A} did not come back within 10 min",
             "Look at its log", ran=LONG_AGO, reading=(B, C), gone_ms={A: NOW - 300_000}),
        case("a broker that a person restarts stays away", ONE_GOES, "did not come back",
             "Look at its log", by_hand=True, live=(B, C), missing_since_ms={A: NOW - 600_000}),
        case("a restart of a dead process stays away", ONE_GOES, "did not come back",
             "Look at its log", live=(B, C), missing_since_ms={A: NOW - 600_000}),
        case("a restart of a dead process that never was is not run again", ONE_GOES,
             "has not been restarted since", f"--restart-again {A}", since_ms=NOW - 60_000),
        case("figures that do not come back", NEXT, f"no round has fresh figures of {A}",
             "rebalancer doctor", stale={A: "silent"}, restarted_since_ms={A: NOW - 600_000}),
        case("a frozen broker", ALL_WAIT, f"{B}: frozen", "PULSAR_FAULTS.md", frozen=(B,)),
        case("another broker is lost during a restart", ONE_GOES, f"{C} is missing",
             "Start that broker", ran=RAN, live=(B,), missing_since_ms={C: NOW - 40_000}),
    ],
)  # fmt: skip
def test_it_halts(phases: Phases, given: dict[str, Any], says: str, advises: str) -> None:
    found = step_of(phases, **given)
    assert isinstance(found, HaltRoll), found
    assert says in found.text
    assert advises in found.advice
    assert "rebalancer roll --resume" in found.advice
    assert found.advice.endswith(".")


@pytest.mark.parametrize("phases", [ALL_WAIT, ONE_IS_EMPTY])
@pytest.mark.parametrize(
    ("wrong", "since", "limit_ms", "says"),
    [
        ({"live": (A, B)}, lambda at: {"missing_since_ms": {C: at}}, 30_000, f"{C} is missing"),
        ({}, lambda at: {"missing_since_ms": {"e:1": at}}, 30_000, "e:1 is missing"),
        ({"unowned": ("t/n/0_1",)}, lambda at: {"unowned_since_ms": {"t/n/0_1": at}}, 60_000,
         "t/n/0_1 has had no owner for"),
        ({"live": None, "readable": False}, lambda at: {"unreadable_since_ms": at}, 120_000,
         "the cluster has not answered reads of brokers and metadata for"),
        ({"reading": (), "readable": False}, lambda at: {"unreadable_since_ms": at}, 120_000,
         "the cluster has not answered reads"),
    ],
)  # fmt: skip
def test_no_step_while_something_is_wrong_and_a_halt_if_it_lasts(
    phases: Phases, wrong: dict[str, Any], since: Any, limit_ms: int, says: str
) -> None:
    soon = step_of(phases, **wrong, **since(NOW - limit_ms + 1))
    assert isinstance(soon, KeepWaiting)
    assert soon.text.startswith("takes no step: ")
    assert says in soon.text
    late = step_of(phases, **wrong, **since(NOW - limit_ms))
    assert isinstance(late, HaltRoll)
    assert says in late.text
    assert "rebalancer roll --resume" in late.advice


@pytest.mark.parametrize(
    ("phases", "given", "number"),
    [
        case("rounds that yield", ALL_WAIT, 2, code="yielding"),
        case("blind rounds", ALL_WAIT, 2, code="blind", stale={A: "silent"}),
        case("blind rounds without a reason", ONE_GOES, 2, code="blind"),
        case("another broker is silent too", ONE_GOES, 2, code="blind", stale={A: "-", B: "-"}),
        case("yielding during a restart", ONE_GOES, 2, code="yielding", stale={A: "silent"}),
        case("a restart makes it blind", ONE_GOES, 0, code="blind", stale={A: "silent"}),
        case("a restart that is over does", NEXT, 0, code="blind", stale={A: "silent"}),
        case("a round that acts", ALL_WAIT, 0, code="acting", stale={A: "silent"}),
    ],
)
def test_rounds_that_cannot_judge_halt_the_roll_unless_its_restart_is_the_reason(
    phases: Phases, given: dict[str, Any], number: int
) -> None:
    rounds = [round_of(phases), *[round_of(phases, **given)] * 2]
    two = step_of(phases, rounds=rounds, ran=RAN)
    three = step_of(phases, rounds=[*rounds, rounds[-1]], ran=RAN)
    says = f"rounds in a row are {given['code']}: nothing has to move"
    assert getattr(two, "text", "").startswith(f"takes no step: 2 {says}") is (number > 0)
    assert getattr(three, "text", "").startswith(f"3 {says}") is (number > 0)
    assert isinstance(three, HaltRoll) is (number > 0)


def test_two_at_a_time_are_drained_together() -> None:
    found = step_of({**ONE_DRAINS, D: "waiting"}, max_unavailable=2)
    assert found == WriteRecord("drain", B, "roll", together=True)


def test_a_drain_that_is_blocked_is_no_reason_to_halt() -> None:
    blocked = drain_of(A, "blocked", "no move is allowed now [outside-window]", advice="Wait.")
    found = step_of(ONE_DRAINS, more=[blocked])
    assert found == KeepWaiting(f"{A}: no move is allowed now [outside-window]. Wait.")


def test_a_roll_ends_with_the_reason_where_more_moves_cannot_help() -> None:
    codes: tuple[StateCode, ...] = ("cannot-help", "not-allowed")
    for code in codes:
        one = round_of(DONE, code=code, text="too big [coarse-bundles]", advice="Split it.")
        assert isinstance(step_of(DONE, rounds=[one] * 3), KeepWaiting)
        why = "all brokers are restarted, but the load is not even: too big [coarse-bundles]. "
        assert step_of(DONE, rounds=[one] * 4) == WriteRecord("end", None, f"{why}Split it.")


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


def test_a_person_may_want_a_restart_again() -> None:
    assert step_of(ONE_GOES, due={A}) == RunRestart(A)


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


@pytest.mark.parametrize("roll", [ROLL, "f" * 32])
def test_a_process_whose_first_record_is_refused_ends(roll: str) -> None:
    refused = status("roll", "refused", id="mine", text="c:1 is unknown", advice="Go.")
    rounds = [round_of(ALL_WAIT, [refused], record="theirs", id=roll)]
    found = step_of(ALL_WAIT, rounds=rounds, pending=intent("roll"), in_charge=False)
    assert found == EndProcess("refused", "the record to roll was refused: c:1 is unknown", "Go.")


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


@pytest.mark.parametrize("pending", [None, intent("drain", A, "later")])
@pytest.mark.parametrize("ended", ["done", "halted", "cancelled", "rolling"])
def test_a_roll_that_has_ended_or_that_another_process_goes_on_with_ends_the_process(
    ended: str, pending: object
) -> None:
    found = step_of(ALL_WAIT, state=ended, record="theirs", pending=pending)
    assert isinstance(found, EndProcess)
    assert found.code == ("taken-over" if ended == "rolling" else ended)
    assert (found.text == "the roll goes on") is (ended != "rolling")


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
    assert (state.unowned_since_ms, state.unreadable_since_ms, state.restarted_since_ms) == (
        {},
        None,
        {A: 30},
    )
    state.look(Observation(40, (A, B, C)))
    assert (state.missing_since_ms, state.restarted_since_ms) == ({}, {A: 30})


def test_as_many_rounds_are_kept_as_the_rules_need() -> None:
    state, _ = rolling(DONE, even_rounds=12, rounds=[])
    for number in range(20):
        state.read(round_of(DONE, ts=number * ROUND_MS))
    assert state.in_a_row(lambda done: done.ts > 0) == 12

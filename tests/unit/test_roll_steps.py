"""The next step of a roll: one broker after the other, the leader last, and a halt at the first
thing that looks wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.intent_contract import RollPhase
from strategies.roll.next_step import next_step
from strategies.roll.steps import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    RollStep,
    RunRestart,
    WriteRecord,
)
from strategies.roll.view import (
    Absences,
    Observation,
    RestartRun,
    RollMemory,
    RollRounds,
    RollView,
    after_look,
    with_answer,
    with_record,
    with_restart,
)
from tests.unit.roll_builders import NOW, A, B, C, D, drain_status, facts, intent, roll_status

ALL_WAIT: Mapping[str, RollPhase] = dict.fromkeys((A, B, C), "waiting")
DONE: Mapping[str, RollPhase] = dict.fromkeys((A, B, C), "restarted")
NEXT: Mapping[str, RollPhase] = {A: "restarted", B: "waiting", C: "waiting"}
ONE_GOES: Mapping[str, RollPhase] = {A: "restarting", B: "waiting", C: "waiting"}


def step(phases: Any, **given: Any) -> RollStep:
    return next_step(facts(phases, **given))


def waits(phases: Any, **given: Any) -> str:
    found = step(phases, **given)
    assert isinstance(found, KeepWaiting), found
    return found.text


def halts(phases: Any, **given: Any) -> HaltRoll:
    found = step(phases, **given)
    assert isinstance(found, HaltRoll), found
    assert found.advice.endswith(".")
    return found


def written(phases: Any, **given: Any) -> tuple[str, str | None]:
    found = step(phases, **given)
    assert isinstance(found, WriteRecord), found
    return found.action, found.broker


class TestOrder:
    def test_the_first_broker_by_name_is_drained_first(self) -> None:
        assert written(ALL_WAIT) == ("drain", A)

    def test_the_leader_is_the_last(self) -> None:
        assert written(ALL_WAIT, leader=A) == ("drain", B)
        assert written({A: "waiting", B: "restarted", C: "restarted"}, leader=A) == ("drain", A)

    def test_the_leader_is_judged_at_each_step(self) -> None:
        two_left = {A: "waiting", B: "waiting", C: "restarted"}
        assert written(two_left, leader=A) == ("drain", B)
        assert written(two_left, leader=B) == ("drain", A)
        assert written(two_left, leader=C) == ("drain", A)

    def test_without_a_leader_nobody_knows_who_is_last(self) -> None:
        assert "waits until the cluster has a leader" in waits(ALL_WAIT, leader=None)
        last = {A: "waiting", B: "restarted", C: "restarted"}
        assert written(last, leader=None) == ("drain", A)

    def test_one_broker_at_a_time(self) -> None:
        assert waits({A: "draining", B: "waiting", C: "waiting"}).startswith(f"{A}: drains {A}")
        assert written({A: "drained", B: "waiting", C: "waiting"}) == ("restarting", A)
        assert waits({**ONE_GOES}, ran={A: RestartRun(NOW)}).startswith(f"waits for {A} to go")

    def test_two_at_a_time_if_asked(self) -> None:
        one = {A: "draining", B: "waiting", C: "waiting", D: "waiting"}
        assert step(one, max_unavailable=2) == WriteRecord("drain", B, "roll", together=True)
        two = {A: "draining", B: "restarting", C: "waiting", D: "waiting"}
        assert "restart" in waits(two, max_unavailable=2, by_hand=True)
        leader = {A: "draining", B: "restarted", C: "restarted", D: "waiting"}
        assert waits(leader, max_unavailable=2), "the leader waits for the others"

    def test_a_drain_that_is_blocked_is_no_reason_to_halt(self) -> None:
        blocked = drain_status(
            A, "blocked", text="no move is allowed now [outside-window]", advice="Wait."
        )
        view = RollView(roll_status({A: "draining", B: "waiting"}), {A: blocked})
        said = waits({A: "draining", B: "waiting"}, view=view)
        assert said == f"{A}: no move is allowed now [outside-window]. Wait."

    def test_it_says_what_moves_wait_for(self) -> None:
        said = waits({A: "draining", B: "waiting"}, obstacle="plan 1.2-ab waits for approval")
        assert said.endswith("; plan 1.2-ab waits for approval")


class TestRestart:
    def test_no_restart_without_an_acknowledgement(self) -> None:
        announced = intent("restarting", A)
        asked = with_record(RollMemory(NOW, ids=frozenset({"x"}), in_charge=True), announced)
        drained: Mapping[str, RollPhase] = {A: "drained", B: "waiting", C: "waiting"}
        known = facts(drained, record="x")
        assert isinstance(next_step(replace(known, memory=asked)), KeepWaiting)
        same_phase = with_answer(asked, RollView(roll_status(ONE_GOES, record="x")))
        assert same_phase == asked, "another process's record is no answer"
        answered = with_answer(asked, RollView(roll_status(ONE_GOES)))
        found = facts(ONE_GOES, due=answered.due)
        assert next_step(found) == RunRestart(A)
        after = with_restart(answered, A, RestartRun(NOW))
        assert isinstance(next_step(replace(found, memory=after)), KeepWaiting)

    def test_a_broker_that_was_gone_and_is_back_is_restarted(self) -> None:
        ran = {A: RestartRun(NOW - 20_000)}
        assert written(ONE_GOES, ran=ran, gone_ms={A: NOW - 5_000}) == ("restarted", A)

    def test_a_broker_that_started_later_than_before_is_restarted(self) -> None:
        """It came back between two looks."""
        ran = {A: RestartRun(NOW - 20_000, started_before_ms=500)}
        assert written(ONE_GOES, ran=ran, started_ms={A: NOW - 9_000}) == ("restarted", A)

    def test_a_start_before_the_command_is_not_its_effect(self) -> None:
        """The broker had crashed after it was drained."""
        ran = {A: RestartRun(NOW - 20_000, started_before_ms=NOW - 60_000)}
        assert "to go and come back" in waits(ONE_GOES, ran=ran, started_ms={A: NOW - 60_000})

    @pytest.mark.parametrize("given", [{"live": (B, C)}, {"reading": (B, C)}])
    def test_it_is_back_when_it_is_listed_and_reads(self, given: dict[str, Any]) -> None:
        ran = {A: RestartRun(NOW - 20_000)}
        said = waits(ONE_GOES, ran=ran, gone_ms={A: NOW}, **given)
        assert said.startswith(f"waits for {A} to come back")

    def test_a_command_that_runs_on_is_waited_for(self) -> None:
        ran = {A: RestartRun(NOW - 20_000, running=True)}
        assert "the end of its restart command" in waits(ONE_GOES, ran=ran, gone_ms={A: NOW})

    @pytest.mark.parametrize("gone", [{}, {A: NOW}])
    def test_a_command_that_fails_halts(self, gone: dict[str, int]) -> None:
        ran = {A: RestartRun(NOW - 20_000, failed="exit code 5")}
        found = halts(ONE_GOES, ran=ran, gone_ms=gone)
        assert found.text == f"the restart of {A} failed: exit code 5"
        assert f"rebalancer roll --resume --restart-again {A}" in found.advice

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"live": (B, C), "missing_ms": {A: NOW - 600_000}},
            {"reading": (B, C), "gone_ms": {A: NOW - 600_000}},
        ],
    )
    def test_a_broker_that_does_not_come_back_halts(self, given: dict[str, Any]) -> None:
        found = halts(ONE_GOES, ran={A: RestartRun(NOW - 600_000)}, **given)
        assert found.text == f"{A} did not come back within 10 min"
        assert "rebalancer roll --resume" in found.advice

    def test_by_hand_a_person_has_time(self) -> None:
        said = waits(ONE_GOES, ran={A: RestartRun(NOW - 9_000_000)}, by_hand=True)
        assert said == f"restart {A} now; waits for it to go and come back"
        gone = {"live": (B, C), "ran": {A: RestartRun(NOW - 9_000_000)}, "by_hand": True}
        assert ": 7 s of at most" in waits(ONE_GOES, missing_ms={A: NOW - 7_000}, **gone)
        halts(ONE_GOES, missing_ms={A: NOW - 600_000}, **gone)


class TestResumed:
    """A process before this one had announced a restart and died."""

    def test_the_broker_has_restarted_since(self) -> None:
        assert written(ONE_GOES, started_ms={A: NOW - 100_000}) == ("restarted", A)

    def test_it_goes_and_comes_back_now(self) -> None:
        assert "to come back" in waits(ONE_GOES, live=(B, C), missing_ms={A: NOW - 3_000})
        assert written(ONE_GOES, gone_ms={A: NOW - 3_000}) == ("restarted", A)

    def test_it_is_gone_and_stays_away(self) -> None:
        halts(ONE_GOES, live=(B, C), missing_ms={A: NOW - 600_000})

    def test_it_runs_as_before_and_is_not_restarted_again(self) -> None:
        assert "waits 30 s more" in waits(ONE_GOES)
        found = halts(ONE_GOES, since_ms=NOW - 60_000)
        assert "has not been restarted since" in found.text
        assert f"--restart-again {A}" in found.advice

    def test_a_person_may_want_it_again(self) -> None:
        assert step(ONE_GOES, due=frozenset({A})) == RunRestart(A)
        assert written(ALL_WAIT, due=frozenset({A})) == ("drain", A)

    def test_by_hand_there_is_no_command_to_repeat(self) -> None:
        assert waits(ONE_GOES, since_ms=0, by_hand=True).startswith(f"restart {A} now")


class TestGate:
    def test_two_rounds_with_fresh_figures_of_the_last_one(self) -> None:
        assert written(NEXT) == ("drain", B)
        assert waits(NEXT, fresh={A: 1}) == f"waits for 2 rounds with fresh figures of {A}"

    def test_fresh_figures_of_the_receivers(self) -> None:
        assert waits(NEXT, stale={C: "no report for 5 min"}).startswith(
            f"waits for fresh figures of {C}: no report"
        )
        assert written(NEXT, stale={"gone:1": "no report"}) == ("drain", B)

    def test_a_broker_that_withdraws_its_figures_is_drained_when_rounds_know_it_again(self) -> None:
        """As brokers of the extensible load manager do; a drain of an unknown broker is refused."""
        assert waits(NEXT, unknown={C: 1}) == f"waits for a round that knows {C}"
        assert written(NEXT, unknown={C: 3}) == ("drain", B)

    def test_it_does_not_wait_for_ever(self) -> None:
        found = halts(NEXT, fresh={}, restarted_ms={A: NOW - 600_000})
        assert f"no round has fresh figures of {A}" in found.text

    def test_a_drained_broker_is_not_restarted_meanwhile(self) -> None:
        drained = {A: "restarted", B: "drained", C: "waiting"}
        assert A in waits(drained, fresh={A: 0}, max_unavailable=2)


class TestAlarms:
    @pytest.mark.parametrize("phases", [ALL_WAIT, {A: "drained", B: "waiting", C: "waiting"}])
    @pytest.mark.parametrize(
        ("soon", "late", "says"),
        [
            (
                {"live": (A, B), "missing_ms": {C: NOW - 29_999}},
                {"live": (A, B), "missing_ms": {C: NOW - 30_000}},
                f"{C} is missing in the list of brokers",
            ),
            (
                {"brokers": (A, B, C, D), "missing_ms": {}},
                {"brokers": (A, B, C, D), "missing_ms": {D: NOW - 30_000}},
                f"{D} is missing in the list of brokers",
            ),
            (
                {"unowned_ms": {"t/n/0x0_0x1": NOW - 59_999}},
                {"unowned_ms": {"t/n/0x0_0x1": NOW - 60_000, "t/n/0x1_0x2": NOW}},
                "t/n/0x0_0x1 has had no owner for",
            ),
            (
                {"live": None, "unreadable_ms": NOW - 119_999},
                {"live": None, "unreadable_ms": NOW - 120_000},
                "the cluster has not answered reads of brokers and metadata for",
            ),
            (
                {"reading": (), "unreadable_ms": NOW - 1},
                {"reading": (), "unreadable_ms": NOW - 120_000},
                "the cluster has not answered reads",
            ),
            (
                {"bad": 2, "round_state": "yielding", "round_text": "another one moves bundles"},
                {"bad": 3, "round_state": "yielding", "round_text": "another one moves bundles"},
                "rounds in a row are yielding: another one moves bundles",
            ),
        ],
    )
    def test_no_step_while_something_is_wrong_and_a_halt_if_it_lasts(
        self, phases: Any, soon: dict[str, Any], late: dict[str, Any], says: str
    ) -> None:
        said = waits(phases, **soon)
        assert said.startswith("takes no step: ")
        assert says in said
        found = halts(phases, **late)
        assert says in found.text
        assert "rebalancer roll --resume" in found.advice

    def test_a_broker_that_rounds_have_forgotten_is_still_missing(self) -> None:
        assert "e:1 is missing" in waits(ALL_WAIT, missing_ms={"e:1": NOW - 1})
        assert "e:1 is missing" in halts(ALL_WAIT, missing_ms={"e:1": NOW - 30_000}).text

    def test_a_frozen_broker_halts_at_once(self) -> None:
        assert halts(ALL_WAIT, frozen=(B,)).text.startswith(f"{B}: frozen")

    def test_another_broker_is_lost_while_one_is_restarted(self) -> None:
        ran = {A: RestartRun(NOW)}
        assert "takes no step" not in waits(ONE_GOES, ran=ran, live=(B, C))
        assert C in halts(ONE_GOES, ran=ran, live=(B,), missing_ms={C: NOW - 40_000}).text

    def test_a_restart_that_is_due_waits_for_the_alarm(self) -> None:
        assert "takes no step" in waits(ONE_GOES, due=frozenset({A}), live=(A, B))


class TestAnswers:
    @pytest.mark.parametrize("pending", [None, intent("drain", A)])
    def test_a_refused_record_halts_the_roll_with_its_reason(self, pending: object) -> None:
        """Also a drain that was accepted, and refused by its first round."""
        refused = roll_status(
            {}, id="mine", action="drain", state="refused", text="no other broker", advice="Go."
        )
        view = RollView(roll_status(ALL_WAIT), {}, {"mine": refused})
        found = halts(ALL_WAIT, view=view, pending=pending)
        assert found.text == "the record to drain was refused: no other broker"
        assert found.advice.startswith("Go. Then `rebalancer roll --resume`")

    def test_a_process_whose_first_record_is_refused_ends(self) -> None:
        refused = roll_status({}, id="mine", state="refused", text="c:1 is unknown", advice="Go.")
        for status in (None, roll_status(ALL_WAIT, record="theirs")):
            view = RollView(status, {}, {"mine": refused})
            found = step(ALL_WAIT, view=view, pending=intent("roll"), in_charge=False)
            assert found == EndProcess(
                "refused", "the record to roll was refused: c:1 is unknown", "Go."
            )

    def test_it_waits_for_an_answer(self) -> None:
        asked = replace(intent("drain", A), ts=NOW - 90_000)
        said = waits(ALL_WAIT, pending=asked, record="mine")
        assert (
            said
            == "waits for a round that answers the record `drain`; the newest round is 60 s old"
        )
        assert waits(ALL_WAIT, pending=asked, times=()).endswith("none yet")

    def test_an_answer_that_five_rounds_do_not_bring_never_comes(self) -> None:
        asked = replace(intent("drain", A), ts=NOW - 90_000)
        found = step(
            ALL_WAIT,
            pending=asked,
            answered_after_ms=asked.ts,
            times=(NOW - 90_000, *range(NOW - 5, NOW)),
        )
        assert isinstance(found, EndProcess)
        assert found.code == "unanswered"
        waits(
            ALL_WAIT,
            pending=asked,
            answered_after_ms=asked.ts,
            times=(NOW - 90_000, *range(NOW - 4, NOW)),
        )

    def test_rounds_from_before_the_record_are_no_answer(self) -> None:
        """Also where the cluster's clock is ahead of this machine's."""
        known = RollRounds(times=tuple(range(NOW, NOW + 8)))
        record = replace(intent("drain", A), ts=NOW - 90_000)
        memory = with_record(RollMemory(NOW, in_charge=True), record, known)
        assert known.after(memory.answered_after_ms) == 0
        assert with_record(RollMemory(NOW), record).answered_after_ms == record.ts

    def test_another_process_has_taken_over(self) -> None:
        for pending in (None, intent("drain", A, "later")):
            found = step(ALL_WAIT, record="theirs", pending=pending)
            assert isinstance(found, EndProcess)
            assert found.code == "taken-over"

    def test_a_process_that_resumes_does_not_yield_to_the_dead(self) -> None:
        said = waits(ALL_WAIT, record="theirs", pending=intent("resume"), in_charge=False)
        assert "answers the record `resume`" in said

    @pytest.mark.parametrize("state", ["done", "halted", "cancelled"])
    @pytest.mark.parametrize("pending", [None, intent("drain", A, "later")])
    def test_a_roll_that_has_ended_ends_the_process(self, state: str, pending: object) -> None:
        found = step(ALL_WAIT, state=state, record="theirs", pending=pending)
        assert found == EndProcess(state, "the roll goes on", "Nothing to do.")  # type: ignore[arg-type]

    def test_a_roll_that_no_round_knows_is_waited_for(self) -> None:
        assert waits(ALL_WAIT, view=RollView()) == "waits for a round that knows the roll"


class TestEnd:
    def test_it_ends_when_the_cluster_is_even(self) -> None:
        assert written(DONE) == ("end", None)

    def test_it_waits_until_the_cluster_has_been_even_for_some_rounds(self) -> None:
        said = waits(DONE, balanced=3, round_text="the round has 3 commands")
        assert "waits until the load is even in 4 rounds in a row: the round has 3" in said
        assert written(DONE, balanced=0, even=False) == ("end", None)

    def test_it_ends_with_the_reason_where_more_moves_cannot_help(self) -> None:
        uneven = {"balanced": 0, "round_text": "too big [coarse-bundles]", "advice": "Split it."}
        assert "waits until the load is even" in waits(DONE, **uneven, helpless=3)
        assert step(DONE, **uneven, helpless=4) == WriteRecord(
            "end",
            None,
            "all brokers are restarted, but the load is not even: too big [coarse-bundles]. "
            "Split it.",
        )

    def test_even_figures_from_before_the_last_restart_do_not_count(self) -> None:
        assert "fresh figures" in waits(DONE, fresh={A: 2, B: 1, C: 2})


def test_what_is_not_seen_is_no_evidence() -> None:
    seen = Observation(NOW, (A, B, C), C, (A, B, C))
    blind = replace(facts(ONE_GOES), seen=seen)
    assert not blind.has_restarted(A)
    assert isinstance(next_step(blind), KeepWaiting)


def test_a_broker_is_missing_since_the_first_look_without_it_and_gone_at_the_last() -> None:
    first = after_look(Absences(), 10, (A, B), (A, B, C))
    assert (first.missing_ms, first.gone_ms) == ({C: 10}, {C: 10})
    later = after_look(first, 20, (A,), (A, B, C))
    assert (later.missing_ms, later.gone_ms) == ({B: 20, C: 10}, {B: 20, C: 20})
    # It counts no more once it is back, whether or not anyone still expects it.
    back = after_look(later, 30, (A, B, C), (A, B))
    assert (back.missing_ms, back.gone_ms) == ({}, {B: 20, C: 20})
    unasked = after_look(later, 30, (A, B), (A, B))
    assert (unasked.missing_ms, unasked.gone_ms) == ({C: 10}, {B: 20, C: 20})

"""Plans of rounds: their ids, their states, and what a person can decide about them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.plans import (
    Plan,
    PlanError,
    approval_for,
    pause_for,
    plan_named,
    plans_of,
)
from sinks.wire.operator_records import command_digest
from sinks.wire.record_encoding import encode_command
from strategies.cluster.model import Command, Outcome, OutcomeStatus
from strategies.executor.objections_to_approvals import (
    Approval,
    ApprovalAction,
    ApprovalOutcome,
    ApprovalStatus,
    ApprovedCommand,
    fits_its_commands,
    plan_id,
)
from tests.control_topic import command, outcome
from tests.unit.test_wire_encoding import ROUND

ONE, TWO = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"
AT = 1_000_000
TIMES = {"issued_at_ms": AT, "expires_at_ms": AT + 300_000}
MOVES = (command(ONE, "a:1", "b:1", id="m1", **TIMES), command(TWO, "a:1", "c:1", id="m2", **TIMES))
DONE = replace(ROUND, cluster="c", epoch=1, round=1, ts=AT, commands=("m1", "m2"))


def plan(
    commands: Sequence[Command] = MOVES,
    outcomes: Sequence[Outcome] = (),
    approvals: Sequence[Approval] = (),
    answers: Sequence[ApprovalOutcome] = (),
    at_ms: int = AT + 1_000,
) -> Plan:
    history = DecisionLog(
        rounds=(DONE,),
        commands=tuple(commands),
        outcomes=tuple(outcomes),
        has_outcomes=True,
        answers=tuple(answers),
        approvals=tuple(approvals),
        digests={one.id: command_digest(encode_command(one)) for one in commands},
    )
    (found,) = plans_of(history, at_ms)
    return found


def asked(action: ApprovalAction, of: Plan | None = None) -> Approval:
    """Anna's approval record."""
    return approval_for(
        of or plan(), action, by="anna", reason="looks good", now_ms=AT + 500, new_id="x"
    )


def decided(action: ApprovalAction, status: ApprovalStatus, reason: str | None = None) -> Plan:
    """The plan after one approval record with this answer."""
    given = asked(action)
    by = (given.action, given.plan, given.by)
    answer = ApprovalOutcome(given.id, "c", *by, status, reason, AT + 900)
    return plan(approvals=[given], answers=[answer])


def test_the_id_changes_with_every_byte_of_every_command() -> None:
    pairs = [ApprovedCommand("a", "0" * 64), ApprovedCommand("b", "1" * 64)]
    other_digest, one_id = ApprovedCommand("b", "2" * 64), ApprovedCommand("a b", "0" * 64)
    ids = {
        *(plan_id(*of, pairs) for of in (("c", 1, 1), ("d", 1, 1), ("c", 2, 1), ("c", 1, 2))),
        *(plan_id("c", 1, 1, of) for of in (pairs[:1], [pairs[0], other_digest], [one_id])),
    }
    assert len(ids) == 7
    assert plan_id("c", 1, 1, pairs[::-1]) == plan_id("c", 1, 1, pairs)
    assert all(one[:4] in ("1.1-", "2.1-", "1.2-") for one in ids)


def test_an_approval_names_each_command_with_the_digest_of_its_bytes() -> None:
    given = asked("approve")
    assert given.commands == tuple(
        ApprovedCommand(one.id, command_digest(encode_command(one))) for one in MOVES
    )
    assert fits_its_commands(given)
    assert not fits_its_commands(replace(given, commands=given.commands[:1]))
    assert not fits_its_commands(replace(given, plan="1.1-x"))
    assert given.expires_at_ms == AT + 300_000


def test_advice_is_no_part_of_a_plan() -> None:
    advice = command(ONE, "a:1", action="throttle", issued_at_ms=AT, id="t")
    assert plan([*MOVES, advice]).id == plan().id


@pytest.mark.parametrize(
    ("statuses", "at_ms", "state"),
    [
        ([], AT + 1_000, "waiting"),
        (["refused"], AT + 1_000, "waiting"),
        (["applied"], AT + 1_000, "waiting"),
        (["applied", "already-done"], AT + 1_000, "done"),
        (["dry-run", "dry-run"], AT + 1_000, "done"),
        (["applied", "refused"], AT + 1_000, "partly"),
        (["applied"], AT + 300_000, "partly"),
        (["refused", "failed"], AT + 1_000, "refused"),
        (["expired", "expired"], AT + 400_000, "expired"),
        ([], AT + 300_000, "expired"),
    ],
)
def test_the_state_of_a_plan_without_a_decision(
    statuses: list[OutcomeStatus], at_ms: int, state: str
) -> None:
    outcomes = [outcome(one, status) for one, status in zip(MOVES, statuses, strict=False)]
    assert plan(outcomes=outcomes, at_ms=at_ms).state == state


def test_only_an_accepted_record_decides() -> None:
    assert decided("approve", "accepted").state == "approved"
    assert decided("deny", "accepted").state == "denied"
    refused = decided("approve", "refused", "wrong-signature: …")
    assert (refused.state, refused.decision) == ("waiting", None)
    assert [one.answer for one in refused.attempts] == ["wrong-signature: …"]


def test_a_decision_without_an_answer_is_shown_as_such() -> None:
    waiting = plan(approvals=[asked("deny")])
    assert waiting.state == "waiting"
    assert waiting.decision is not None
    assert (waiting.decision.by, waiting.decision.status) == ("anna", None)


def test_what_is_decided_or_over_cannot_be_decided_again() -> None:
    for over, words in (
        (decided("approve", "accepted"), "is approved; anna approved it: looks good"),
        (decided("deny", "accepted"), "is denied; anna denied it: looks good"),
        (plan(at_ms=AT + 300_000), "has expired"),
    ):
        with pytest.raises(PlanError, match=words):
            asked("approve", over)


def test_a_plan_that_is_not_all_there_is_not_approved_yet() -> None:
    part = plan(MOVES[:1])
    assert not part.complete
    with pytest.raises(PlanError, match="not complete"):
        asked("approve", part)


@pytest.mark.parametrize(("by", "reason"), [("", "x"), ("anna", " "), ("anna", "a\nb")])
def test_every_decision_names_a_person_and_a_reason(by: str, reason: str) -> None:
    with pytest.raises(PlanError):
        approval_for(plan(), "approve", by=by, reason=reason, now_ms=AT, new_id="y")
    with pytest.raises(PlanError):
        pause_for("c", "pause", by=by, reason=reason, now_ms=AT, new_id="y")


def test_a_plan_is_found_by_the_beginning_of_its_id() -> None:
    one = plan()
    other = replace(one, id="1.12-0", cluster="d")
    assert plan_named([one, other], one.id[:6]) is one
    assert plan_named([one, other], "1.1", "d") is other
    with pytest.raises(PlanError, match="2 plans begin with it"):
        plan_named([one, other], "1.1")
    with pytest.raises(PlanError, match="no such plan; the newest are"):
        plan_named([one], "9")
    with pytest.raises(PlanError, match="no plan yet"):
        plan_named([], "9")

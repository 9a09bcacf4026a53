"""An executor that waits for people: what it holds, what it does after a decision, and what it
answers to records that are late, forged or repeated.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sinks.executor.settings import ExecutorConfig
from sinks.secret_file import Secret
from sinks.wire.codec import decode, decode_rejected, encode_approval
from sinks.wire.signing import SigningKey
from strategies.executor.admission import AdmissionRules
from strategies.limits import read_windows
from tests.control_topic import Control, command, now_ms
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import APPLY, FOUR, ONE, THREE, TWO, Death, Life, executor, run
from tests.unit.plan_builders import APPROVALS_KEY, answers, approval, give

KEY = SigningKey(Secret(b"k" * 32))
ASKS = replace(APPLY, approvals_key=APPROVALS_KEY, approval_required=True)


def test_a_plan_waits_until_a_person_approves_it(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    moves = [command(ONE, one, two), command(TWO, one, two)]
    control.send(*moves)
    assert run(pulsar, control, ASKS) == []
    assert pulsar.asked("PUT") == []

    give(control, given := approval(*moves))

    assert run(pulsar, control, ASKS) == [("applied", ""), ("applied", "")]
    (answer,) = control.answers()
    assert (answer.approval_id, answer.action, answer.plan, answer.by) == (
        given.id,
        "approve",
        given.plan,
        "anna",
    )
    assert (answer.status, answer.reason) == ("accepted", None)


def test_only_outcomes_of_commands_come_back_into_the_telemetry(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    give(control, approval(move))
    run(pulsar, control, ASKS)
    assert len(control.read("outcomes")) == 2
    assert [decode(value, b"").outcome for value in control.read("telemetry")] == control.outcomes()  # type: ignore[union-attr]


def test_a_denied_plan_frees_each_bundle_with_person_and_reason(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    moves = [command(ONE, one, two), command(TWO, one, two)]
    control.send(*moves)
    give(control, approval(*moves, action="deny", by="bo", reason="not during the sale"))

    assert run(pulsar, control, ASKS) == [("refused", "denied"), ("refused", "denied")]
    assert {done.reason for done in control.outcomes()} == {"denied: bo: not during the sale"}
    assert pulsar.asked("PUT") == []


def test_a_command_that_is_held_and_read_again_keeps_waiting(
    pulsar: FakePulsar, control: Control
) -> None:
    """The executor died before it had committed the position, and is paused when it starts."""
    one, two, _ = pulsar.cluster.brokers
    brake = control.folder / "pause"
    config = replace(ASKS, pause_file=brake)
    control.send(move := command(ONE, one, two))
    with pytest.raises(Death):
        run(pulsar, control, config, Life("before committing"))
    brake.touch()
    assert run(pulsar, control, config) == []
    brake.unlink()
    give(control, approval(move))
    assert run(pulsar, control, config) == [("applied", "")]


class BriefPause(type(Path())):  # type: ignore[misc]
    """A pause file that is removed right after it was seen."""

    def exists(self, **_: object) -> bool:
        there = bool(super().exists())
        self.unlink(missing_ok=True)
        return there


def test_a_pause_that_ends_a_moment_after_a_command_met_it_is_no_approval(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    brake = BriefPause(control.folder / "pause")
    brake.touch()
    control.send(command(ONE, one, two))

    assert run(pulsar, control, replace(ASKS, pause_file=brake)) == [("refused", "paused")]
    assert pulsar.asked("PUT") == []


def test_other_plans_keep_waiting(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    first, second = command(ONE, one, two), command(TWO, one, two, round=2)
    control.send(first, second)
    give(control, approval(second))
    assert run(pulsar, control, ASKS) == [("applied", "")]
    assert [done.command_id for done in control.outcomes()] == [second.id]


def test_an_approval_may_arrive_before_its_commands(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    moves = [command(ONE, one, two), command(TWO, one, two)]
    give(control, approval(*moves))
    assert run(pulsar, control, ASKS) == []
    assert answers(control) == []

    control.send(moves[0])
    assert run(pulsar, control, ASKS) == [("applied", "")]
    assert answers(control) == [("accepted", "")]

    control.send(moves[1])
    assert run(pulsar, control, ASKS) == [("applied", ""), ("applied", "")]
    assert answers(control) == [("accepted", "")]


def test_what_no_longer_fits_is_refused_alone_and_the_rest_goes_on(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    moves = [command(bundle, one, two) for bundle in (ONE, TWO)] + [
        command(THREE, pulsar.cluster.owners[THREE] or "", "127.0.0.1:1"),
        command(FOUR, pulsar.cluster.owners[FOUR] or ""),
    ]
    control.send(*moves)
    run(pulsar, control, ASKS)
    pulsar.cluster.owners[ONE] = three
    give(control, approval(*moves))

    assert run(pulsar, control, ASKS) == [
        ("refused", "moved-on"),
        ("applied", ""),
        ("refused", "destination-gone"),
        ("applied", ""),
    ]
    assert answers(control) == [("accepted", "")]


def test_without_an_approval_a_command_expires_and_says_why(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    late = Life(later_ms=300_000)

    assert run(pulsar, control, ASKS, late) == [("expired", "not-approved")]
    assert "no one approved or denied its plan" in (control.outcomes()[0].reason or "")

    give(control, approval(move))
    assert run(pulsar, control, ASKS, late) == [("expired", "not-approved")]
    assert answers(control) == [("refused", "too-late")]
    assert "1 expired" in (control.answers()[0].reason or "")
    assert pulsar.asked("PUT") == []


def test_an_approval_that_is_read_when_its_plan_is_over_changes_nothing(
    pulsar: FakePulsar, control: Control
) -> None:
    """It was given in time, and the executor was away."""
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    give(control, approval(move))

    assert run(pulsar, control, ASKS, Life(later_ms=300_000)) == [("expired", "not-approved")]
    assert answers(control) == [("refused", "too-late")]


def test_a_plan_whose_commands_never_came_is_answered_at_its_end(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    give(control, approval(command(ONE, one, two)))
    run(pulsar, control, ASKS)
    assert answers(control) == []
    run(pulsar, control, ASKS, Life(later_ms=300_000))
    assert answers(control) == [("expired", "unknown-plan")]


def test_forged_records_decide_nothing(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    forged = [approval(move), approval(move, action="deny")]
    give(control, *forged, key=None)
    give(control, *forged, key=SigningKey(Secret(b"x" * 32)))
    give(control, approval(action="pause"), key=KEY)

    assert run(pulsar, control, ASKS) == []
    assert answers(control) == [("refused", "unsigned")] * 2 + [("refused", "wrong-signature")] * 3

    give(control, replace(approval(move), id=forged[0].id))
    assert run(pulsar, control, ASKS) == [("applied", "")], "a forged record takes no id"


def test_a_changed_byte_makes_a_record_forged(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    signed = APPROVALS_KEY.sign(encode_approval(approval(move, action="deny")))
    control.write("approvals", [signed.replace(b'"deny"', b'"approve"')])
    assert run(pulsar, control, ASKS) == []
    assert answers(control) == [("refused", "wrong-signature")]


def test_a_repeated_record_is_refused(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    records = give(control, approval(move))
    control.write("approvals", records)
    assert run(pulsar, control, ASKS) == [("applied", "")]
    assert answers(control) == [("accepted", ""), ("refused", "replayed")]


def test_the_first_decision_on_a_plan_counts(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    give(control, approval(move, action="deny", by="bo", reason="no"), approval(move))
    assert run(pulsar, control, ASKS) == [("refused", "denied")]
    assert answers(control) == [("accepted", ""), ("refused", "already-decided")]
    assert (control.answers()[1].reason or "").endswith("bo denied this plan before: no")


def test_records_from_the_future_and_late_ones_are_refused(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    give(
        control,
        approval(move, later_ms=400_000),
        approval(move, expires_at_ms=now_ms() - 12_000),
    )
    assert run(pulsar, control, ASKS) == []
    assert answers(control) == [("refused", "from-the-future"), ("expired", "expired")]


def test_an_id_that_is_not_the_one_of_its_commands_is_refused(
    pulsar: FakePulsar, control: Control
) -> None:
    """A person who saw one plan cannot be made to approve another one."""
    one, two, _ = pulsar.cluster.brokers
    seen, other = command(ONE, one, two), command(TWO, one, two, round=2)
    control.send(seen, other)
    give(control, replace(approval(seen), commands=approval(other).commands))
    assert run(pulsar, control, ASKS) == []
    assert answers(control) == [("refused", "wrong-plan-id")]


def test_a_command_with_other_bytes_is_not_the_approved_one(
    pulsar: FakePulsar, control: Control
) -> None:
    """Without signatures anyone may write a command with the id of the one that a person sees."""
    one, two, three = pulsar.cluster.brokers
    seen = command(ONE, one, two)
    control.send(replace(seen, destination=three), seen)
    run(pulsar, control, ASKS)
    give(control, approval(seen))

    told = run(pulsar, control, ASKS)

    assert sorted(told) == [("applied", ""), ("refused", "not-the-approved-plan")]
    assert pulsar.cluster.owners[ONE] == two

    control.send(replace(seen, destination=three))
    assert run(pulsar, control, ASKS)[2:] == [("already-done", "replayed")]


def test_a_forged_copy_does_not_take_the_place_of_the_approved_command(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    config = replace(ASKS, key=KEY)
    control.send(seen := command(ONE, one, two), key=KEY)
    control.send(seen)
    assert run(pulsar, control, config) == [("refused", "unsigned")]

    give(control, approval(seen, key=KEY))
    assert run(pulsar, control, config) == [("refused", "unsigned"), ("applied", "")]


def test_an_approval_names_the_signed_bytes(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(seen := command(ONE, one, two), key=KEY)
    give(control, approval(seen))
    assert run(pulsar, control, replace(ASKS, key=KEY)) == [("refused", "not-the-approved-plan")]


def test_a_newer_epoch_ends_what_waits(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    control.write("rounds", [b'{"v":1,"cluster":"c","epoch":7}'])
    assert run(pulsar, control, ASKS) == [("refused", "older-epoch")]
    give(control, approval(move))
    assert run(pulsar, control, ASKS) == [("refused", "older-epoch")]
    assert answers(control) == [("refused", "too-late")]


def test_what_is_refused_anyway_does_not_wait(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(
        command(ONE, one, two, action="throttle"),
        command("u/ns/0x00000000_0xffffffff", one, two),
        command(TWO, one, two, expires_at_ms=now_ms() - 1),
    )
    config = replace(ASKS, rules=AdmissionRules(allow=("t/*",)))
    assert run(pulsar, control, config) == [
        ("refused", "advice"),
        ("refused", "namespace-not-allowed"),
        ("expired", "expired"),
    ]


def test_a_window_that_closed_while_the_plan_waited_refuses_it(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    give(control, approval(move))
    hour = (now_ms() // 3_600_000 + 3) % 24
    window = f"{hour:02}:00-{(hour + 1) % 24:02}:00"
    rules = AdmissionRules(windows=read_windows(window, "executor.windows"))
    assert run(pulsar, control, replace(ASKS, rules=rules)) == [("refused", "outside-window")]


def test_a_dry_run_waits_for_approval_too(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    config = replace(ASKS, apply=False)
    control.send(move := command(ONE, one, two))
    assert run(pulsar, control, config) == []
    give(control, approval(move))
    assert run(pulsar, control, config) == [("dry-run", "dry-run")]
    assert pulsar.asked("PUT") == []


def test_a_repeated_command_is_applied_once(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    move = command(ONE, one, two)
    control.send(move, move)
    run(pulsar, control, ASKS)
    give(control, approval(move))
    assert run(pulsar, control, ASKS) == [("applied", ""), ("already-done", "replayed")]
    assert len(pulsar.cluster.applied) == 1


def test_records_of_other_clusters_and_bad_ones_are_left_or_rejected(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    give(control, replace(approval(move), cluster="other"))
    control.write("approvals", [b"{", b'{"v":1}', encode_approval(replace(approval(move), by=" "))])
    assert run(pulsar, control, ASKS) == []
    assert answers(control) == []
    codes = [decode_rejected(value).code for value in control.read("rejected")]
    assert codes == ["not-json", "missing-field", "by-empty"]


def test_when_approvals_are_no_longer_required_what_waits_goes_on(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two))
    run(pulsar, control, ASKS)
    assert run(pulsar, control, APPLY) == [("applied", "")]


def test_an_executor_that_needs_no_approval_says_so(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    give(control, approval(command(ONE, one, two)))
    run(pulsar, control, replace(APPLY, approvals_key=APPROVALS_KEY))
    assert answers(control) == [("refused", "not-required")]


PAUSES = [replace(APPLY, approvals_key=APPROVALS_KEY), ASKS]


@pytest.mark.parametrize("config", PAUSES)
def test_a_record_pauses_and_another_one_resumes(
    pulsar: FakePulsar, control: Control, config: ExecutorConfig
) -> None:
    one, two, _ = pulsar.cluster.brokers
    give(control, approval(action="pause", by="bo", reason="upgrade of the brokers"))
    control.send(command(ONE, one, two))
    assert run(pulsar, control, config) == [("refused", "paused")]
    assert "paused by bo (upgrade of the brokers)" in (control.outcomes()[0].reason or "")
    assert run(pulsar, control, config) == [("refused", "paused")], "the next start knows it"

    give(control, approval(action="resume"))
    control.send(move := command(TWO, one, two))
    give(control, approval(move))
    assert run(pulsar, control, config)[1:] == [("applied", "")]
    assert answers(control)[:2] == [("accepted", ""), ("accepted", "")]


def test_old_pauses_and_resumes_do_not_come_back(pulsar: FakePulsar, control: Control) -> None:
    config = PAUSES[0]
    paused, resumed, again = (
        approval(action="pause"),
        approval(action="resume", later_ms=10),
        approval(action="pause", later_ms=20),
    )
    (old_pause,) = give(control, paused)
    (old_resume,) = give(control, resumed)
    give(control, again)
    control.write("approvals", [old_resume, old_pause])
    give(control, replace(resumed, id="made-before"))
    with executor(pulsar, control, config) as running:
        running.step(0)
        assert running.is_paused
    assert answers(control) == [("accepted", "")] * 3 + [
        ("refused", "replayed"),
        ("refused", "replayed"),
        ("refused", "older"),
    ]


def test_there_is_nothing_to_resume(pulsar: FakePulsar, control: Control) -> None:
    give(control, approval(action="resume"))
    run(pulsar, control, PAUSES[0])
    assert answers(control) == [("refused", "not-paused")]


def test_the_pause_file_pauses_beside_the_records(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    brake = control.folder / "pause"
    brake.touch()
    config = replace(PAUSES[0], pause_file=brake)
    control.send(command(ONE, one, two))
    assert run(pulsar, control, config) == [("refused", "paused")]
    assert "pause file" in (control.outcomes()[0].reason or "")


def test_a_pause_stops_a_plan_that_is_approved(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))
    run(pulsar, control, ASKS)
    give(control, approval(move), approval(action="pause"))
    assert run(pulsar, control, ASKS) == [("refused", "paused")]


def test_the_executor_counts_what_it_holds(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    moves = [command(ONE, one, two), command(TWO, one, two)]
    control.send(*moves)
    with executor(pulsar, control, ASKS) as running:
        assert running.step(0) == 2
        assert (running.held, running.is_paused) == (2, False)
        assert running.step(0) == 0
        give(control, approval(*moves))
        assert running.step(0) == 2
        assert running.held == 0

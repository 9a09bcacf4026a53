"""An executor that waits for people: what it holds, and its answers to their records."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.executor.settings import ExecutorConfig
from sinks.secret_file import Secret
from sinks.wire.operator_records import encode_approval
from sinks.wire.record_decoding import decode
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command
from strategies.executor.admission import AdmissionRules
from strategies.executor.objections_to_approvals import Approval
from strategies.patterns_and_windows import read_windows
from tests.control_topic import now_ms
from tests.unit.executor_lives import APPLY, FOUR, ONE, THREE, TWO, executor
from tests.unit.plan_builders import APPROVALS_KEY, approval
from tests.world.services import Scene

KEY = SigningKey(Secret(b"k" * 32))
ASKS = replace(APPLY, approvals_key=APPROVALS_KEY, approval_required=True)
#: An executor that needs no approval, and obeys pauses.
PAUSABLE = replace(APPLY, approvals_key=APPROVALS_KEY)
LATE_MS = 300_000


@pytest.fixture
def held(scene: Scene) -> Command:
    """A move that an executor has read and holds."""
    move = scene.send_move()
    assert scene.run(ASKS) == []
    return move


def test_a_plan_waits_until_a_person_approves_it(scene: Scene) -> None:
    moves = scene.send_moves(ONE, TWO)
    assert scene.run(ASKS) == []
    assert scene.puts == 0
    scene.give(given := approval(*moves))
    assert scene.run(ASKS) == ["applied", "applied"]
    (answer,) = scene.control.answers()
    assert (answer.approval_id, answer.plan, answer.by) == (given.id, given.plan, "anna")
    assert (answer.action, answer.status, answer.reason) == ("approve", "accepted", None)
    fed_back = [decode(value, b"") for value in scene.control.read("telemetry")]
    assert [one.outcome for one in fed_back] == scene.outcomes  # type: ignore[union-attr]


def test_a_denied_plan_frees_each_bundle_with_person_and_reason(scene: Scene) -> None:
    moves = scene.send_moves(ONE, TWO)
    scene.give(approval(*moves, action="deny", by="bo", reason="not during the sale"))
    assert scene.run(ASKS) == ["refused denied", "refused denied"]
    assert {done.reason for done in scene.outcomes} == {"denied: bo: not during the sale"}
    assert scene.puts == 0


def test_a_command_that_is_held_and_read_again_keeps_waiting(scene: Scene) -> None:
    """The executor died before it had committed the position, and is paused when it starts."""
    brake = scene.control.folder / "pause"
    config = replace(ASKS, pause_file=brake)
    move = scene.send_move()
    scene.run_until_death("before committing", config)
    brake.touch()
    assert scene.run(config) == []
    brake.unlink()
    scene.give(approval(move))
    assert scene.run(config) == ["applied"]


class BriefPause(type(Path())):  # type: ignore[misc]
    """A pause file that is removed right after it was seen."""

    def exists(self, **_: object) -> bool:
        there = bool(super().exists())
        self.unlink(missing_ok=True)
        return there


def test_a_pause_that_ends_a_moment_after_a_command_met_it_is_no_approval(scene: Scene) -> None:
    brake = BriefPause(scene.control.folder / "pause")
    brake.touch()
    scene.send_move()
    assert scene.run(replace(ASKS, pause_file=brake)) == ["refused paused"]
    assert scene.puts == 0


def test_an_approval_may_arrive_before_its_commands(scene: Scene) -> None:
    moves = [scene.move(), scene.move(TWO)]
    scene.give(approval(*moves))
    assert scene.run(ASKS) == []
    assert scene.answers == []
    for move in moves:
        scene.send(move)
        assert scene.run(ASKS) == ["applied"]
        assert scene.answers == ["accepted"]


def test_what_no_longer_fits_is_refused_alone_and_the_rest_goes_on(scene: Scene) -> None:
    moves = [scene.move(), scene.move(TWO), scene.move(THREE, "127.0.0.1:1"), scene.release(FOUR)]
    scene.send(*moves)
    scene.run(ASKS)
    scene.owners[ONE] = scene.three
    scene.give(approval(*moves))
    assert scene.run(ASKS) == ["refused moved-on", "applied", "refused destination-gone", "applied"]
    assert scene.answers == ["accepted"]


@pytest.mark.parametrize("in_time", [True, False])
def test_without_an_approval_that_is_read_in_time_a_command_expires(
    scene: Scene, held: Command, in_time: bool
) -> None:
    """Also where it was given in time, and the executor was away."""
    given = approval(held)
    scene.give(*[given] * in_time)
    assert scene.run(ASKS, later_ms=LATE_MS) == ["expired not-approved"]
    scene.give(*[given] * (not in_time))
    assert scene.run(ASKS, later_ms=LATE_MS) == []
    assert scene.answers == ["refused too-late"]
    assert "1 expired" in (scene.control.answers()[0].reason or "")
    assert scene.puts == 0


def test_a_plan_whose_commands_never_came_is_answered_at_its_end(scene: Scene) -> None:
    scene.give(approval(scene.move()))
    scene.run(ASKS)
    assert scene.answers == []
    scene.run(ASKS, later_ms=LATE_MS)
    assert scene.answers == ["expired unknown-plan"]


def test_forged_records_decide_nothing(scene: Scene, held: Command) -> None:
    forged = [approval(held), approval(held, action="deny")]
    scene.give(*forged, key=None)
    scene.give(*forged, key=SigningKey(Secret(b"x" * 32)))
    scene.give(approval(action="pause"), key=KEY)
    signed = APPROVALS_KEY.sign(encode_approval(forged[1]))
    scene.control.write("approvals", [signed.replace(b'"deny"', b'"approve"')])
    assert scene.run(ASKS) == []
    assert scene.answers == ["refused unsigned"] * 2 + ["refused wrong-signature"] * 4
    scene.give(replace(approval(held), id=forged[0].id))
    assert scene.run(ASKS) == ["applied"], "a forged record takes no id"


def test_a_repeated_record_is_refused(scene: Scene, held: Command) -> None:
    scene.control.write("approvals", scene.give(approval(held)))
    assert scene.run(ASKS) == ["applied"]
    assert scene.answers == ["accepted", "refused replayed"]


def test_the_first_decision_on_a_plan_counts(scene: Scene, held: Command) -> None:
    scene.give(approval(held, action="deny", by="bo", reason="no"), approval(held))
    assert scene.run(ASKS) == ["refused denied"]
    assert scene.answers == ["accepted", "refused already-decided"]
    assert (scene.control.answers()[1].reason or "").endswith("bo denied this plan before: no")


def with_commands_of_another_plan(seen: Command) -> Approval:
    other = replace(seen, bundle=TWO, id="other", round=2)
    return replace(approval(seen), commands=approval(other).commands)


@pytest.mark.parametrize(
    ("decide", "answer"),
    [
        (lambda move: approval(move, later_ms=400_000), "refused from-the-future"),
        (lambda move: approval(move, expires_at_ms=now_ms() - 12_000), "expired expired"),
        # A person who saw one plan cannot be made to approve another one.
        (with_commands_of_another_plan, "refused wrong-plan-id"),
    ],
)
def test_records_that_cannot_be_meant_decide_nothing(
    scene: Scene, held: Command, decide: Callable[[Command], Approval], answer: str
) -> None:
    scene.give(decide(held))
    assert scene.run(ASKS) == []
    assert scene.answers == [answer]


def test_a_command_with_other_bytes_is_not_the_approved_one(scene: Scene) -> None:
    """Without signatures anyone may write a command with the id of the one that a person sees."""
    seen = scene.move()
    scene.send(replace(seen, destination=scene.three), seen)
    scene.run(ASKS)
    scene.give(approval(seen))
    assert sorted(scene.run(ASKS)) == ["applied", "refused not-the-approved-plan"]
    assert scene.owners[ONE] == scene.two
    scene.send(replace(seen, destination=scene.three))
    assert scene.run(ASKS) == ["already-done replayed"]


@pytest.mark.parametrize(
    ("key", "expected"), [(KEY, "applied"), (None, "refused not-the-approved-plan")]
)
def test_an_approval_names_the_signed_bytes_and_a_forged_copy_does_not_take_their_place(
    scene: Scene, key: SigningKey | None, expected: str
) -> None:
    config = replace(ASKS, key=KEY)
    scene.send(seen := scene.move(), key=KEY)
    scene.send(seen)
    assert scene.run(config) == ["refused unsigned"]
    scene.give(approval(seen, key=key))
    assert scene.run(config) == [expected]


def test_a_newer_epoch_ends_what_waits(scene: Scene, held: Command) -> None:
    scene.see_epoch(7)
    assert scene.run(ASKS) == ["refused older-epoch"]
    scene.give(approval(held))
    assert scene.run(ASKS) == []
    assert scene.answers == ["refused too-late"]


def test_what_is_refused_anyway_does_not_wait(scene: Scene) -> None:
    scene.send(scene.move(action="throttle"), scene.move("u/ns/0x00000000_0xffffffff"))
    scene.send_move(TWO, expires_at_ms=now_ms() - 1)
    refused = ["refused advice", "refused namespace-not-allowed", "expired expired"]
    assert scene.run(replace(ASKS, rules=AdmissionRules(allow=("t/*",)))) == refused


def test_a_window_that_closed_while_the_plan_waited_refuses_it(scene: Scene, held: Command) -> None:
    scene.give(approval(held))
    hour = (now_ms() // 3_600_000 + 3) % 24
    window = f"{hour:02}:00-{(hour + 1) % 24:02}:00"
    rules = AdmissionRules(windows=read_windows(window, "executor.windows"))
    assert scene.run(replace(ASKS, rules=rules)) == ["refused outside-window"]


def test_a_dry_run_waits_for_approval_too(scene: Scene) -> None:
    config = replace(ASKS, apply=False)
    move = scene.send_move()
    assert scene.run(config) == []
    scene.give(approval(move))
    assert scene.run(config) == ["dry-run dry-run"]
    assert scene.puts == 0


def test_a_repeated_command_is_applied_once(scene: Scene, held: Command) -> None:
    scene.send(held)
    scene.give(approval(held))
    assert scene.run(ASKS) == ["applied", "already-done replayed"]
    assert len(scene.applied) == 1


def test_records_of_other_clusters_and_bad_ones_are_left_or_rejected(
    scene: Scene, held: Command
) -> None:
    scene.give(replace(approval(held), cluster="other"))
    nameless = encode_approval(replace(approval(held), by=" "))
    scene.control.write("approvals", [b"{", b'{"v":1}', nameless])
    assert scene.run(ASKS) == []
    assert scene.answers == []
    assert scene.rejected == ["not-json", "missing-field", "by-empty"]


@pytest.mark.usefixtures("held")
def test_when_approvals_are_no_longer_required_what_waits_goes_on(scene: Scene) -> None:
    assert scene.run(APPLY) == ["applied"]


@pytest.mark.parametrize("config", [PAUSABLE, ASKS])
def test_a_record_pauses_and_another_one_resumes(scene: Scene, config: ExecutorConfig) -> None:
    scene.give(approval(action="pause", by="bo", reason="upgrade of the brokers"))
    scene.send_move()
    assert scene.run(config) == ["refused paused"]
    assert "paused by bo (upgrade of the brokers)" in scene.reason
    scene.send_move()
    assert scene.run(config) == ["refused paused"], "the next start knows it"
    scene.give(approval(action="resume"))
    scene.give(approval(scene.send_move(TWO)))
    assert scene.run(config) == ["applied"]
    assert scene.answers[:2] == ["accepted", "accepted"]


def test_old_pauses_and_resumes_do_not_come_back(scene: Scene) -> None:
    resumed = approval(action="resume", later_ms=10)
    (old_pause,) = scene.give(approval(action="pause"))
    (old_resume,) = scene.give(resumed)
    scene.give(approval(action="pause", later_ms=20))
    scene.control.write("approvals", [old_resume, old_pause])
    scene.give(replace(resumed, id="made-before"))
    with executor(scene.pulsar, scene.control, PAUSABLE) as running:
        running.step(0)
        assert running.is_paused
    again = ["refused replayed", "refused replayed", "refused older"]
    assert scene.answers == ["accepted"] * 3 + again


@pytest.mark.parametrize(
    ("action", "answer"), [("resume", "refused not-paused"), ("approve", "refused not-required")]
)
def test_there_is_nothing_to_decide(scene: Scene, action: str, answer: str) -> None:
    plan = [scene.move()] if action == "approve" else []
    scene.give(approval(*plan, action=action))  # type: ignore[arg-type]
    scene.run(PAUSABLE)
    assert scene.answers == [answer]


def test_a_pause_stops_a_plan_that_is_approved(scene: Scene, held: Command) -> None:
    scene.give(approval(held), approval(action="pause"))
    assert scene.run(ASKS) == ["refused paused"]


def test_the_executor_counts_what_it_holds(scene: Scene) -> None:
    moves = scene.send_moves(ONE, TWO)
    with executor(scene.pulsar, scene.control, ASKS) as running:
        assert (running.step(0), running.held, running.is_paused) == (2, 2, False)
        assert running.step(0) == 0
        scene.give(approval(*moves))
        assert (running.step(0), running.held) == (2, 0)

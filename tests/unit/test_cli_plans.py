"""The command line of plans: a person sees a plan, decides, and sees what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.cli.commands.execute import used_topics
from pulsar_rebalancer.settings.merge_sources import load
from sinks.wire.operator_records import encode_approval_outcome
from sinks.wire.record_decoding import decode_approval
from sinks.wire.record_encoding import encode_round
from strategies.cluster.model import Command
from strategies.executor.objections_to_approvals import ApprovalOutcome
from tests.control_topic import TOPICS, Control, command, now_ms
from tests.pulsar_fake.server import FakePulsar
from tests.unit.command_line import Answer, rebalancer
from tests.unit.executor_lives import APPLY, ONE, TWO, run
from tests.unit.plan_builders import APPROVALS_KEY, approval, give
from tests.unit.test_wire_encoding import ROUND
from tools.processes.set_words import set_words

pytestmark = pytest.mark.heavy

ASKS = replace(APPLY, approvals_key=APPROVALS_KEY, approval_required=True)


@dataclass(frozen=True)
class Operator:
    """A person at a command line whose settings name the topics of `control` and the key."""

    control: Control

    def types(self, *words: object, key: bool = True) -> Answer:
        file = self.control.folder / "approvals-key"
        file.write_bytes(APPROVALS_KEY.secret.reveal())
        file.chmod(0o600)
        given = self.control.settings(executor__approval="required")
        if key:
            given["signing.approvals_key_file"] = file
        return rebalancer(*words, *set_words(given))

    def decides(self, *commands: Command, **changes: Any) -> None:
        """The job has published a round with these commands."""
        first, ids = commands[0], tuple(one.id for one in commands)
        same = {name: getattr(first, name) for name in ("cluster", "epoch", "round")}
        done = replace(ROUND, **same, ts=first.issued_at_ms, commands=ids, **changes)
        self.control.send(*commands)
        self.control.write("rounds", [encode_round(done)])


@pytest.fixture
def operator(control: Control) -> Operator:
    return Operator(control)


def a_plan(of: str = "c", round_: int = 1) -> list[Command]:
    return [
        command(ONE, "a:1", "b:1", cluster=of, round=round_),
        command(TWO, "a:1", cluster=of, round=round_),
    ]


def state(answer: Answer) -> list[str]:
    return [plan["state"] for plan in answer.json["plans"]]


def test_without_a_round_with_commands_there_is_no_plan(operator: Operator) -> None:
    assert operator.types("plans", "approve", "1", "--reason", "x").code == 1
    operator.control.write("rounds", [encode_round(replace(ROUND, commands=()))])
    answer = operator.types("plans", "list")
    assert (answer.code, answer.out) == (0, "no plan yet: no round has decided on a command\n")


def test_the_list_has_one_line_per_plan_the_newest_first(operator: Operator) -> None:
    operator.decides(*a_plan())
    later = now_ms() + 1_000
    operator.decides(*[replace(one, issued_at_ms=later) for one in a_plan("other", round_=2)])
    lines = operator.types("plans", "list").out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["other", "c"]
    assert lines[2].endswith("4 min          2   25.0 → 5.0   waiting")
    (only,) = operator.types("plans", "list", "--cluster", "c", "--json").json["plans"]
    assert (only["cluster"], only["complete"], only["decision"]) == ("c", True, None)
    assert state(operator.types("plans", "list", "--last", "1", "--json")) == ["waiting"]


def test_an_approval_is_signed_and_names_person_reason_and_bytes(operator: Operator) -> None:
    operator.decides(*(moves := a_plan()))
    answer = operator.types("plans", "approve", "1.1", "--reason", "fits", "--by", "anna")
    assert (answer.code, "approved plan 1.1-" in answer.words) == (0, True)
    (record,) = operator.control.read("approvals")
    assert APPROVALS_KEY.check(record) == "signed"
    given, expected = decode_approval(record), approval(*moves, by="anna", reason="fits")
    assert given == replace(expected, id=given.id, ts=given.ts)
    listed = operator.types("plans", "list").words
    assert "waiting, approved by anna, not answered" in listed


def test_the_login_is_the_person_and_json_is_the_record(operator: Operator) -> None:
    operator.decides(*a_plan())
    answer = operator.types("plans", "deny", "1.1", "--reason", "no", "--json")
    assert answer.json["kind"] == "approval"
    assert (answer.json["approval"]["action"], answer.json["approval"]["reason"]) == ("deny", "no")
    assert answer.json["approval"]["by"]


def test_from_the_plan_to_its_end(operator: Operator, pulsar: FakePulsar) -> None:
    one, two, _ = pulsar.cluster.brokers
    operator.decides(*(command(bundle, one, two) for bundle in (ONE, TWO)))
    execute = ("execute", "--once", "--apply", "--set", f"pulsar.admin_urls={pulsar.admin_urls}")
    held = operator.types(*execute).err.splitlines()
    assert held[-1].endswith("no commands; 2 commands wait for approval")
    operator.types("plans", "approve", "1.1", "--reason", "fits", "--by", "anna")
    pulsar.cluster.owners[TWO] = two
    assert len(run(pulsar, operator.control, ASKS)) == 2
    assert state(operator.types("plans", "list", "--json")) == ["done"]
    shown = operator.types("plans", "show", "1.1").out
    assert f"outcome: applied, now on {two}" in shown
    assert "outcome: already-done (at-destination:" in shown
    assert "approved by anna" in shown
    assert shown.rstrip().endswith(": fits; accepted")


def test_a_forged_record_is_shown_as_a_decision_only_where_nobody_can_check_it(
    operator: Operator,
) -> None:
    operator.decides(*(moves := a_plan()))
    forged = approval(*moves, by="mallory")
    give(operator.control, forged, key=None)
    assert "mallory" not in operator.types("plans", "list").out
    assert "mallory" in operator.types("plans", "list", key=False).out, "without the key, unchecked"
    answer = ApprovalOutcome(
        forged.id, "c", "approve", forged.plan, "mallory", "refused", "unsigned: no key", now_ms()
    )
    operator.control.write("outcomes", [encode_approval_outcome(answer)])
    shown = operator.types("plans", "show", "1").out
    assert "refused (unsigned: no key)" in shown
    assert "waiting, expires in" in shown


@pytest.mark.parametrize("words", [("approve", "1"), ("deny", "1"), ("pause",), ("resume",)])
def test_a_decision_needs_a_reason_and_the_key(operator: Operator, words: Sequence[str]) -> None:
    operator.decides(*a_plan())
    assert operator.types("plans", *words).code == 2
    empty = operator.types("plans", *words, "--reason", " ")
    assert (empty.code, "reason is empty" in empty.err) == (1, True)
    unsigned = operator.types("plans", *words, "--reason", "x", key=False)
    assert (unsigned.code, "approvals_key_file: is empty" in unsigned.err) == (2, True)
    assert not operator.control.folder.joinpath("approvals").exists()


def test_who_decides_twice_is_warned(operator: Operator) -> None:
    operator.decides(*a_plan())
    operator.types("plans", "approve", "1", "--reason", "x", "--by", "anna")
    answer = operator.types("plans", "deny", "1", "--reason", "y", "--by", "bo")
    assert answer.code == 0
    assert "approved by anna before, and no executor has answered yet" in answer.err


def test_pause_and_resume_by_record(operator: Operator, pulsar: FakePulsar) -> None:
    operator.types("plans", "pause", "--reason", "upgrade", "--by", "bo")
    run(pulsar, operator.control, ASKS)
    words = "executor of c: paused by bo"
    assert words in operator.types("plans", "list").out
    assert operator.types("plans", "list", "--json").json["pauses"]["c"]["reason"] == "upgrade"
    status = operator.types("status")
    assert "executor paused by bo" in status.out
    assert "ago: upgrade; to resume" in status.out
    without_key = operator.types("status", key=False).out
    assert "ago; to resume" in without_key, "the person's reason is on the other topic"
    assert operator.types("status", "--json").json["clusters"][0]["paused_by"]["by"] == "bo"
    operator.types("plans", "resume", "--reason", "done", "--by", "bo")
    run(pulsar, operator.control, ASKS)
    assert words not in operator.types("plans", "list").out
    assert "paused by" not in operator.types("status").out


def test_status_and_explain_name_the_plan_that_waits_and_who_approved(operator: Operator) -> None:
    operator.decides(*(moves := a_plan()))
    status = operator.types("status").out
    assert "waits for approval: 2 commands, expires in 4 min" in status
    assert len(operator.types("status", "--json").json["clusters"][0]["waiting_plans"]) == 1
    explained = operator.types("explain", ONE).out
    assert "outcome: none yet: its plan 1.1-" in explained
    assert "waits for approval; see `rebalancer plans show" in explained
    given = approval(*moves)
    give(operator.control, given)
    answer = ApprovalOutcome(given.id, "c", "approve", given.plan, "anna", "accepted", None, 1)
    operator.control.write("outcomes", [encode_approval_outcome(answer)])
    assert "none yet: anna approved its plan" in operator.types("explain", ONE).out


def test_readers_of_outcomes_pass_over_answers_to_approvals(operator: Operator) -> None:
    operator.decides(*a_plan())
    answer = ApprovalOutcome("x", "c", "pause", None, "bo", "accepted", None, now_ms())
    operator.control.write("outcomes", [encode_approval_outcome(answer)])
    for words in (("status",), ("explain",), ("explain", ONE), ("plans", "list")):
        said = operator.types(*words)
        assert (said.code, "skipped" in said.err) == (0, False), words


def test_an_executor_without_a_key_cannot_wait_for_approvals(
    operator: Operator, pulsar: FakePulsar, tmp_path: Path
) -> None:
    words = ("execute", "--once", "--set", f"pulsar.admin_urls={pulsar.admin_urls}")
    answer = operator.types(*words, key=False)
    assert answer.code == 2
    assert "signing.approvals_key_file is empty" in answer.err
    assert "openssl rand -hex 32" in answer.err
    same = operator.types(*words, "--set", f"signing.key_file={tmp_path / 'approvals-key'}")
    assert same.code == 2
    assert "a job could approve its own plans" in same.err


def test_an_executor_without_an_approvals_key_leaves_that_topic_alone() -> None:
    """On Kafka and Pulsar it need not exist."""
    without = used_topics(load())
    assert [str(one).rpartition("/")[2] for one in without] == list(TOPICS[:5])
    with_key = used_topics(load(flags=["signing.approvals_key_file=/a/key"]))
    assert {*with_key} - {*without} == {load().connections.topics.approvals}

"""The command line of drains: a person drains a broker, sees it become empty, and ends it."""

import signal
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from pulsar_rebalancer.cli.intent_session import intent_session
from pulsar_rebalancer.decisions.intents import until_ms
from pulsar_rebalancer.settings.merge_sources import load
from sinks.secret_file import Secret
from sinks.wire.record_encoding import encode_round
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Round
from tests.control_topic import Control, now_ms
from tests.unit.command_line import Answer
from tests.unit.folding_job import A, B, C, FoldingJob, Person
from tools.waiting import eventually

pytestmark = pytest.mark.heavy

KEY = SigningKey(Secret(b"i" * 32))


def after_settings(answer: Answer) -> str:
    """Standard error after the line that names the source of the settings."""
    first, _, rest = answer.err.partition("\n")
    assert "settings: no settings file" in first
    return rest


def test_a_drain_is_written_with_person_and_reason(person: Person, job: FoldingJob) -> None:
    answer = person.types("drain", A, "--reason", "new disks", "--by", "anna", "--no-wait")
    assert (answer.code, after_settings(answer)) == (0, "")
    assert answer.out == f"asked to drain {A} as anna; its progress: rebalancer intents\n"
    (record,) = person.written()
    assert (record.action, record.broker, record.by) == ("drain", A, "anna")
    assert (record.reason, record.cluster, record.together) == ("new disks", "c", False)


def test_a_broker_that_cannot_be_drained_is_one_clear_sentence(
    person: Person, job: FoldingJob
) -> None:
    job.brokers[C] = False
    eventually(lambda: C in job.rounds()[-1].stale, 30)
    for broker, sentence in (
        ("nowhere:1", "no broker nowhere:1 has reported; known brokers: a:1, b:1, c:1"),
        (C, "c:1 has no fresh figures: it is down, or its reports do not arrive [not-live]"),
    ):
        answer = person.drains(broker)
        assert (answer.code, answer.out, person.written()) == (1, "", [])
        (said,) = after_settings(answer).splitlines()
        assert said.startswith(f"error: {sentence}")
        assert said.endswith("Nothing has changed.")


def test_of_two_people_at_the_same_moment_the_round_refuses_the_second(
    person: Person, job: FoldingJob
) -> None:
    """The second command judges by a round that does not know the first record."""
    with job.held():
        person.types("drain", A, "--reason", "disks", "--by", "anna", "--no-wait")
        Timer(0.5, job.go_on).start()
        answer = person.drains(B)
    assert (answer.code, len(person.written())) == (1, 2)
    assert "error: refused: a:1 is being drained: anna asked for it" in answer.err
    assert "--together" in answer.err


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90min", 5_400_000), ("90 m", 5_400_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_a_drain_may_end_by_itself(text: str, ms: int) -> None:
    assert until_ms(text, 1_000) == 1_000 + ms
    assert until_ms("2026-01-31T12:00:00Z", 1) == until_ms("2026-01-31 12:00", 1)


def test_without_a_round_nothing_can_be_asked_for(person: Person) -> None:
    roll = ("roll", "--reason", "x"), ("roll", "--resume")
    for words in (("drain", A, "--reason", "x"), ("undrain", A), ("intents",), *roll):
        answer = person.types(*words)
        assert (answer.code, "no round" in answer.err) == (1, True), answer.err
        assert "rebalancer doctor" in answer.err
        assert f"on file://{person.control.folder}/rounds in the last hour" in answer.err
        assert "name its settings with --config" in answer.err
    assert not person.control.folder.joinpath("telemetry").exists()


def test_a_cluster_that_is_not_named_is_found_or_asked_for(person: Person, job: FoldingJob) -> None:
    answer = person.drains(A, "--cluster", "other")
    assert (answer.code, "no round of cluster other was published" in answer.err) == (1, True)
    assert person.written() == []
    assert person.drains(A, "--no-wait", pulsar__cluster="").code == 0
    newest = job.rounds()[-1]
    person.control.write("rounds", [encode_round(replace(newest, cluster="d"))])
    answer = person.drains(A, pulsar__cluster="")
    assert (answer.code, "name one of c, d with --cluster" in answer.err) == (2, True), answer.err


def test_a_job_that_stands_still_is_named(person: Person, control: Control) -> None:
    with FoldingJob(control, (A, B, C)).running() as job:
        newest = job.rounds()[-1]
    late = replace(newest, epoch=newest.epoch + 1, ts=now_ms() - 1_830_000)
    control.write("rounds", [encode_round(late)])
    answer = person.drains(A, "--no-wait")
    assert answer.code == 0
    assert "warning: the newest round is 30 min old, and only rounds carry this out" in answer.err


def test_a_command_that_waits_in_vain_says_what_it_waits_for(
    person: Person, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    with FoldingJob(control, (A, B, C)).running():
        pass
    given = [word for word in person.settings() if word != "--set"]
    with intent_session(load(flags=given), None, "ann", "x") as session:
        waiting = replace(session, remind_s=0.0).rounds("interrupted")
        assert [next(waiting) for _ in range(2)] == [[], []]
    assert "still waits for a round: check with" in capsys.readouterr().err


def test_records_are_signed_with_the_key_of_intents_or_rejected(
    person: Person, job: FoldingJob, tmp_path: Path
) -> None:
    """No round ever sees a rejected record."""
    job.intents_key = KEY
    answer = person.drains(A)
    assert answer.code == 1
    assert "refused: The intent has no signature" in answer.err
    assert "[intent-unsigned]" in answer.err
    file = tmp_path / "key"
    file.write_bytes(KEY.secret.reveal())
    file.chmod(0o600)
    assert person.drains(A, "--no-wait", signing__intents_key_file=str(file)).code == 0
    *_, record = (v for v in person.control.read("telemetry") if b'"intent"' in v)
    assert KEY.check(record) == "signed"
    answer = person.drains(B, signing__intents_key_file="/nowhere")
    assert (answer.code, "signing.intents_key_file" in answer.err) == (2, True)


def test_undrain_of_what_is_not_drained(person: Person, job: FoldingJob) -> None:
    answer = person.types("undrain", A)
    assert (answer.code, person.written()) == (1, [])
    assert after_settings(answer).startswith(f"error: {A} is not being drained [not-drained]")
    person.drains(A, "--no-wait")
    eventually(lambda: bool(job.rounds()[-1].intents), 30)
    answer = person.types("undrain", "a")
    assert f"a is not being drained; those that are: {A} [not-drained]" in answer.err


def test_a_drain_from_the_question_to_the_empty_broker(person: Person, job: FoldingJob) -> None:
    answer = person.types("drain", A, "--reason", "new disks", "--by", "anna", "--until", "2h")
    assert answer.code == 0, answer.words
    assert answer.out.startswith(f"{A} is drained after ")
    assert answer.out.endswith(f"It takes no bundle until `rebalancer undrain {A}`.\n")
    assert "draining: " in answer.err
    assert A not in job.owners.values()
    lines = person.types("intents").out.splitlines()
    assert "  The broker may be stopped." in lines
    assert any(line.startswith("  ends by itself at ") for line in lines)
    ended = person.types("undrain", A, "--by", "bo")
    sentence = f"the drain of {A} has ended (done): bo ended it: no longer needed"
    assert ended.out.startswith(sentence)
    again = person.drains(B, "--no-wait", "--json")
    assert (again.json["kind"], again.json["intent"]["action"]) == ("intent", "drain")
    eventually(lambda: any(one.broker == B for one in job.rounds()[-1].intents), 30)
    ended = person.types("undrain", B, "--json")
    assert (ended.json["kind"], ended.json["intent"]["broker"]) == ("intent-status", B)


@pytest.mark.parametrize(("stop_by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_interrupts_a_drain_leaves_it_going(
    person: Person, job: FoldingJob, stop_by: signal.Signals, code: int
) -> None:
    """A script that stops the broker after `drain &&` must not take this for the end."""
    job.executes = False
    answer = person.drains(A, stop_after_s=2, stop_by=stop_by)
    assert answer.code == code
    assert "the drain goes on; its progress: rebalancer intents" in answer.err
    assert f"rebalancer undrain {A}" in answer.err
    assert any(one.broker == A for one in job.rounds()[-1].intents)


def test_who_interrupts_before_a_round_learns_what_becomes_of_the_record(
    person: Person, job: FoldingJob
) -> None:
    with job.held():
        answer = person.drains(A, stop_after_s=2)
    assert answer.code == 130
    assert f"interrupted, but the record to drain {A} is written" in answer.err
    assert "`rebalancer intents` shows" in answer.err


def test_a_drain_that_a_later_round_refuses_ends_the_command(
    person: Person, job: FoldingJob
) -> None:
    """The broker had no figures in the first round, so its bundles were not known."""
    drained = list[Round]()

    def says(done: Round) -> Round:
        if not done.intents or not drained:
            drained.extend([done] if done.intents else [])
            return done
        text = "no other broker may take t/ns"
        (one,) = done.intents
        return replace(done, intents=(replace(one, state="refused", text=text, advice="Add one."),))

    job.executes, job.says = False, says
    answer = person.drains(A, stop_after_s=20)
    assert (answer.code, answer.out) == (1, ""), answer.words
    assert answer.err.splitlines()[-1] == "error: refused: no other broker may take t/ns. Add one."


def test_a_drain_that_rounds_know_no_more_ends_the_command(person: Person, job: FoldingJob) -> None:
    """As after a new checkpoint that does not read the record again."""
    job.executes = False
    Timer(2, job.begin_again).start()
    answer = person.drains(A, stop_after_s=30)
    assert (answer.code, answer.out) == (1, ""), answer.words
    last = answer.err.splitlines()[-1]
    assert last.startswith(f"error: 5 rounds do not know the drain of {A} any more")
    assert "ask for the drain again" in last


def test_intents_shows_what_lasts_and_what_was_refused(person: Person, job: FoldingJob) -> None:
    assert person.types("intents").out == "no drain, move, split or roll of c in the last hour\n"
    person.types("drain", A, "--reason", "disks \x1b[31m", "--by", "anna", "--no-wait")
    person.types("drain", A, "--reason", "new disks", "--by", "anna", "--no-wait")
    eventually(lambda: bool(job.rounds()[-1].intents), 30)
    lines = person.types("intents").out.splitlines()
    assert lines[0].split()[:3] == ["intent", "cluster", "state"]
    assert lines[2].startswith(f"drain {A}")
    assert "anna" in lines[2]
    (found,) = person.types("intents", "--json").json["clusters"]
    assert (found["cluster"], found["intents"][0]["broker"]) == ("c", A)
    assert person.types("intents", "--cluster", "x").code == 1

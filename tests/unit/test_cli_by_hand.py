"""The command line of moves by hand: what a person sees, says yes to, and gets."""

import os
import pty
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from sinks.wire.operator_records import encode_intent
from sinks.wire.record_decoding import decode_command
from tests.control_topic import Control
from tests.telemetry_lines import bundle
from tests.unit.command_line import Answer
from tests.unit.folding_job import A, B, C, FoldingJob, Person
from tests.world.intents import drain
from tests.world.splits import children_of
from tools.waiting import eventually

pytestmark = pytest.mark.heavy

BUNDLE = bundle(0)
WHY = ("--reason", "new disks", "--by", "anna")


def moved(person: Person, to: str = B) -> Answer:
    answer = person.types("move", BUNDLE, "--to", to, "--yes", *WHY)
    assert answer.code == 0, answer.words
    return answer


def test_a_bundle_is_shown_asked_for_and_moved(person: Person, job: FoldingJob) -> None:
    answer = moved(person)

    assert job.owners[BUNDLE] == B
    assert answer.out.splitlines()[2].split()[:3] == [BUNDLE, A, B]
    assert f"{BUNDLE}: done, {B} serves it after" in answer.err.splitlines()[-1]
    (record,) = person.written()
    assert (record.action, record.by, record.reason) == ("move", "anna", "new disks")
    shown = person.types("explain", BUNDLE).words, person.types("status").words
    assert all("because anna asked for it (new disks)" in words for words in shown)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_without_a_terminal_and_without_yes_nothing_is_asked(
    person: Person, job: FoldingJob, words: tuple[str, ...]
) -> None:
    answer = person.types("unload", "t/ns", *WHY, *words)

    assert (answer.code, person.written()) == (6, [])
    assert answer.err.endswith("nothing has been asked; --yes does what is shown\n")
    if words:
        assert (answer.json["kind"], answer.json["asked"]) == ("moves", False)
        assert [one["present"]["name"] for one in answer.json["moves"]] == [*job.owners]
    else:
        assert all(name in answer.out for name in job.owners)


@pytest.mark.parametrize(
    ("said", "code", "records"), [(b"y\n", 0, 1), (b"n\n", 6, 0), (b"\x04", 6, 0)]
)
def test_on_a_terminal_the_person_decides(
    person: Person, job: FoldingJob, said: bytes, code: int, records: int
) -> None:
    ours, theirs = pty.openpty()
    words = ["move", BUNDLE, "--to", B, "--no-wait", *WHY, *person.settings()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", "pulsar_rebalancer.cli.main", *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(ours, 1_000)
        os.write(ours, said)
        out, _ = process.communicate(timeout=60)
    os.close(ours)

    assert "Move 1 bundle of c? [y/N]" in seen.decode()
    assert (process.returncode, len(person.written())) == (code, records)
    assert BUNDLE in out.decode()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("move", BUNDLE, "--to", "d:1"), f"{BUNDLE} did not move: no broker d:1 has reported"),
        (("move", "t/ns"), "t/ns has 6 bundles: name one of them"),
        (("unload", "t/other"), "t/other: the newest report of no broker lists such a bundle"),
        (
            ("split", BUNDLE, "--at", "0x0"),
            f"{BUNDLE} was not split as asked: 0x00000000 is not above",
        ),
        (("split", "t/ns", "--move"), "t/ns has 6 bundles: name one of them"),
        (
            ("split", BUNDLE, "--algorithm", "half"),
            f"{BUNDLE} was not split as asked: Pulsar has no",
        ),
        (("unload", "pulsar/system"), "pulsar/system belongs to Pulsar and never moves [system-"),
        (("undo",), "no round of c has moves that an executor has applied"),
        (("undo", "1"), "no round or plan 1 of c has moves"),
    ],
)
def test_what_cannot_be_is_one_clear_sentence(
    person: Person, job: FoldingJob, words: tuple[str, ...], sentence: str
) -> None:
    answer = person.types(*words, "--yes", "--reason", "x")

    assert (answer.code, answer.out, person.written()) == (1, "", [])
    assert f"error: {sentence}" in answer.err


def test_other_settings_than_those_of_the_job_are_named(person: Person, job: FoldingJob) -> None:
    answer = person.types("move", BUNDLE, *WHY, shedding__strategy="threshold")
    assert "the job decides by steady/fixed, these settings say threshold/fixed" in answer.err


def test_a_bundle_that_is_there_already_needs_no_record(person: Person, job: FoldingJob) -> None:
    answer = person.types("move", BUNDLE, "--to", A, *WHY)
    assert (answer.code, person.written()) == (0, [])
    assert answer.out == f"{BUNDLE} stays: it is on {A} already\n"


def test_of_two_people_at_the_same_moment_the_first_moves_it_and_the_second_the_others(
    person: Person, job: FoldingJob
) -> None:
    """No round has seen the first record when the second person asks."""
    owners = dict(job.owners)
    with job.held(), ThreadPoolExecutor(1) as beside:
        person.types("move", BUNDLE, "--to", B, "--yes", "--no-wait", *WHY)
        beside.submit(eventually, lambda: len(person.written()) == 7, 60)
        beside.submit(job.go_on)
        answer = person.types("unload", "t/ns", "--yes", "--json", "--reason", "x", "--by", "bo")

    assert (answer.code, "[already-asked]" in answer.err) == (1, True)
    assert f"error: {BUNDLE} did not move: anna asked to move it" in answer.err
    states = [one["intent"]["state"] for one in answer.json["moves"]]
    assert states == ["refused", *["done"] * 5]
    assert all(job.owners[name] != owner for name, owner in owners.items())
    commands = [decode_command(one) for one in person.control.read("commands")]
    assert [one.destination for one in commands if one.bundle == BUNDLE] == [B]


def test_every_one_of_many_refusals_reaches_the_person(control: Control, person: Person) -> None:
    """More than rounds remember; first no round has seen the other request, then one has."""
    job = FoldingJob(control, (A, B, C), 22)
    job.executes = False
    with job.running(), job.held(), ThreadPoolExecutor(1) as beside:
        person.types("unload", "t/ns", "--yes", "--no-wait", *WHY)
        beside.submit(eventually, lambda: len(person.written()) == 132, 60)
        beside.submit(job.go_on)
        words = ("unload", "t/ns", "--yes", "--json", "--reason", "x", "--by", "bo")
        told = [person.types(*words), person.types(*words)]
    assert [one.code for one in told] == [1, 1]
    assert [one["intent"]["state"] for one in told[0].json["moves"]] == ["refused"] * 66
    assert [one["preview"]["state"] for one in told[1].json["moves"]] == ["refused"] * 66


def test_a_person_whose_name_is_no_text_is_refused(person: Person, job: FoldingJob) -> None:
    answer = person.types("move", BUNDLE, "--reason", "x", "--by", "\udce9", "--yes")
    assert (answer.code, person.written()) == (2, [])
    assert '--by is "\\udce9", with control characters in it' in answer.err


def test_who_asks_beside_a_flood_of_records_is_told(person: Person, job: FoldingJob) -> None:
    flood = (replace(drain(at, 0, "no:1"), ts=job.now_ms) for at in range(1_000))
    person.control.write("telemetry", [encode_intent(one) for one in flood])
    answer = person.types("move", BUNDLE, "--to", B, "--yes", *WHY)
    assert (answer.code, "[too-many-intents]" in answer.err) == (1, True)


def test_each_bundle_of_a_refused_request_is_in_the_document(
    person: Person, job: FoldingJob
) -> None:
    shown = person.types("move", BUNDLE, "--to", "d:1", "--json", *WHY)
    job.demand_signatures()
    asked = person.types("unload", "t/ns", "--yes", "--json", *WHY)

    assert (shown.code, shown.json["asked"], asked.code, asked.json["asked"]) == (1, False, 1, True)
    assert shown.json["moves"][0]["preview"]["state"] == "refused"
    assert [one["intent"]["state"] for one in asked.json["moves"]] == ["refused"] * 6
    assert f"error: {BUNDLE}, " in asked.err


def test_all_bundles_of_a_namespace_move_with_one_wait(person: Person, job: FoldingJob) -> None:
    before = dict(job.owners)
    answer = person.types("unload", "t/ns", *WHY, "--yes", "--json")

    assert answer.code == 0, answer.words
    assert all(job.owners[name] != owner for name, owner in before.items())
    assert "6 of 6 have moved" in answer.err
    assert {one["intent"]["state"] for one in answer.json["moves"]} == {"done"}
    assert len(person.written()) == 6


def test_a_move_that_no_executor_carries_out_is_an_error(person: Person, job: FoldingJob) -> None:
    job.executes = False
    answer = person.types("move", BUNDLE, "--to", B, "--yes", *WHY)

    assert answer.code == 1
    assert answer.err.splitlines()[-1].startswith(
        f"error: {BUNDLE} did not move: its command expired without an answer [no-answer]"
    )


def test_the_moves_of_a_round_go_back(person: Person, job: FoldingJob) -> None:
    moved(person)
    number = decode_command(person.control.read("commands")[-1]).round

    answer = person.types("undo", "--yes", "--by", "bo")

    assert (answer.code, job.owners[BUNDLE]) == (0, A), answer.words
    assert person.written()[-1].reason == f"undo of round {number}"
    again = person.types("undo", str(number), "--yes")
    assert (again.code, len(person.written())) == (1, 2)
    assert f"{BUNDLE} stays: {A} serves it again" in again.err
    job.owners[BUNDLE] = C
    eventually(lambda: f"stays: {C} serves it now" in person.types("undo", str(number)).err, 30)


def test_a_bundle_is_split_and_its_children_move(person: Person, job: FoldingJob) -> None:
    at = ("--at", "0x400000,0x800000")
    answer = person.types("split", "largest", *at, "--to", C, "--yes", *WHY)

    assert answer.code == 0, answer.words
    (record,) = person.written()
    assert (record.action, record.bundle, record.by) == ("split", BUNDLE, "anna")
    children = children_of(BUNDLE, (0x400000, 0x800000))
    assert [job.owners[child] for child in children] == [A, C, C]
    assert f"split {BUNDLE} of {A} by specified_positions_divide at 0x00400000" in answer.out
    assert "is split into 3 bundles" in answer.err
    assert answer.err.endswith("done, it is split, and 2 new bundles moved\n")


@pytest.mark.parametrize(
    ("at", "code"),
    [("0x400000,abc", 2), ("", 2), ("-5", 2), ("0x400000" + 100 * ",0x500000", 2), ("0x400000", 6)],
)
def test_a_split_without_a_yes_or_with_a_typo_asks_for_nothing(
    person: Person, job: FoldingJob, at: str, code: int
) -> None:
    answer = person.types("split", "hottest", f"--at={at}", "--json", *WHY)

    assert (answer.code, person.written()) == (code, [])
    assert code == 2 or answer.json["splits"][0]["present"]["name"] == BUNDLE


def test_moves_are_among_the_intents(person: Person, job: FoldingJob) -> None:
    job.executes = False
    person.types("move", BUNDLE, "--to", B, "--yes", "--no-wait", *WHY)
    eventually(lambda: "moving" in person.types("intents").out, 30)
    lines = person.types("intents").out.splitlines()
    assert lines[2].startswith(f"move {BUNDLE} to {B}")
    assert "anna" in lines[2]
    assert lines[-1] == f"move {BUNDLE} to {B}: leaves {A} for {B}"


def test_pause_stands_at_the_top_level_too(person: Person) -> None:
    for words in (("pause",), ("resume",)):
        answer = person.types(*words, "--reason", "x")
        same = person.types("plans", *words, "--reason", "x")
        assert (answer.code, answer.err) == (same.code, same.err)
        assert "signing.approvals_key_file: is empty" in answer.err

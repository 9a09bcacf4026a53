"""Explain: its sources and its JSON document. What it prints is in tests/golden/explain.txt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.uri import file_topic_uri
from sinks.wire.codec import decode_command, decode_outcome
from sinks.wire.encoding import encode_outcome, encode_outcome_telemetry
from strategies.cluster.model import Command
from tests.control_topic import outcome
from tests.unit.command_line import Answer, rebalancer
from tests.unit.uneven_log import EAGER_WORDS, recorded, uneven

NOW = ("--set", "executor.state=/nowhere")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Five rounds of a hot and an idle broker; the first one moves bundles."""
    rebalancer(
        "replay", recorded(tmp_path, uneven(rounds=5)), "--out", tmp_path / "job", *EAGER_WORDS
    )
    return tmp_path / "job"


def commands(folder: Path) -> list[Command]:
    return [decode_command(line) for line in (folder / "commands.jsonl").read_bytes().splitlines()]


def explained(folder: Path, *words: object) -> Answer:
    return rebalancer("explain", *words, "--from", folder)


def test_as_json(job: Path) -> None:
    answer = explained(job, "hot:1", "--json").json

    assert (answer["kind"], answer["v"], answer["subject"]) == (
        "explanation",
        1,
        {"kind": "broker", "name": "hot:1"},
    )
    assert [one["round"] for one in answer["rounds"]] == [1, 2, 3, 4, 5]
    lines = (job / "commands.jsonl").read_bytes().splitlines()
    assert answer["commands"] == [json.loads(line) for line in lines]
    assert answer["executor_limits"] == explained(job, 1, "--json").json["executor_limits"] == []


def test_without_an_argument_the_newest_round_is_explained(job: Path) -> None:
    assert explained(job) == explained(job, "latest") == explained(job, 5)
    assert explained(job, "--json").json["rounds"] == explained(job, 5, "--json").json["rounds"]


def test_from_topics_where_everything_was_published_twice(tmp_path: Path, job: Path) -> None:
    first = commands(job)[0]
    refused = outcome(first, "refused", "paused: this executor is paused")
    records = {
        kind: (job / f"{kind}.jsonl").read_bytes().splitlines() for kind in ("rounds", "commands")
    }
    for kind, lines in {**records, "outcomes": [encode_outcome(refused)]}.items():
        with FileTopicWriter(tmp_path / "topics" / kind) as topic:
            for _ in range(2):
                topic.append(lines)
    uris = {kind: file_topic_uri(tmp_path / "topics" / kind) for kind in (*records, "outcomes")}
    named = [word for kind in uris for word in (f"--{kind}", uris[kind])]
    given = [word for kind in uris for word in ("--set", f"topics.{kind}={uris[kind]}")]

    by_uri = rebalancer("explain", "hot:1", *named)
    by_settings = rebalancer("explain", "hot:1", *given)

    assert "1 refused: paused" in by_uri.out
    assert by_uri == explained(tmp_path / "topics", "hot:1")
    assert (by_settings.code, by_settings.out) == (by_uri.code, by_uri.out)
    found = rebalancer("explain", first.bundle, *named, "--json").json
    assert [(one["command_id"], one["status"]) for one in found["outcomes"]] == [
        (first.id, "refused")
    ]


def test_a_topic_of_outcomes_that_is_not_there(job: Path) -> None:
    answer = explained(job, "1", "--outcomes", "file:///nowhere")

    assert (answer.code, answer.out) == (1, "")
    assert "no such topic yet" in answer.err


def test_what_an_executor_would_answer_as_json(job: Path) -> None:
    limited = ("--set", "executor.actions=transfer", "--json", *NOW)
    answer = explained(job, commands(job)[0].bundle, *limited).json
    assert [
        (one["actions"], one["command"], one["status"], one["code"])
        for one in answer["executor_limits"]
    ] == [
        (["unload"], None, "refused", "action-not-allowed"),
        (["transfer"], None, None, None),
        (["split"], None, "refused", "action-not-allowed"),
    ]


@pytest.fixture
def again(job: Path, tmp_path: Path) -> Path:
    """The same log, with two outcomes of the first command, which executors feed back into the
    telemetry, and one of a command that nobody decides here.
    """
    first = commands(job)[0]
    told = [
        outcome(first, "dry-run"),
        outcome(first, "failed", "unanswered: the broker did not answer", 6),
    ]
    other = replace(told[0], command_id="of another job")
    lines = uneven(rounds=5)
    outcomes = map(encode_outcome_telemetry, (*told, other))
    return recorded(tmp_path, [*lines[:6], *outcomes, *lines[6:]], "answered.jsonl")


def test_a_replay_keeps_the_outcomes_of_its_commands(
    job: Path, again: Path, tmp_path: Path
) -> None:
    out, page = tmp_path / "out", tmp_path / "page.html"
    words = ("--out", out, "--html", page, "--json", *EAGER_WORDS)
    done = rebalancer("replay", again, *words).json
    first = commands(out)[0]
    written = [
        decode_outcome(line) for line in Path(done["files"]["outcomes"]).read_bytes().splitlines()
    ]
    assert [(one.command_id, one.status) for one in written] == [
        (first.id, "dry-run"),
        (first.id, "failed"),
    ]
    assert f"{first.bundle}: failed (unanswered" in explained(out, 1).out
    assert "transfer, failed" in page.read_text("utf-8")

    rebalancer("replay", tmp_path / "log.jsonl", "--out", out, *EAGER_WORDS)
    assert not (out / "outcomes.jsonl").exists(), "not even an old one"
    assert not (job / "outcomes.jsonl").exists()

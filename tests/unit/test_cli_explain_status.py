"""Explain and status: their sources and JSON. What they print is in tests/golden."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.record_decoding import decode_command, decode_outcome, decode_round
from sinks.wire.record_encoding import encode_outcome, encode_outcome_telemetry
from strategies.cluster.model import Command
from tests.control_topic import outcome
from tests.unit.command_line import Answer, rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven
from tools.processes.set_words import set_words

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


def test_explain_as_json(job: Path) -> None:
    answer = explained(job, "hot:1", "--json").json
    assert answer["kind"] == "explanation"
    assert answer["v"] == 1
    assert answer["subject"] == {"kind": "broker", "name": "hot:1"}
    assert [one["round"] for one in answer["rounds"]] == [1, 2, 3, 4, 5]
    lines = (job / "commands.jsonl").read_bytes().splitlines()
    assert answer["commands"] == [json.loads(line) for line in lines]
    assert answer["executor_limits"] == explained(job, 1, "--json").json["executor_limits"] == []


def test_without_an_argument_the_newest_round_is_explained(job: Path) -> None:
    assert explained(job) == explained(job, "latest") == explained(job, 5)
    assert explained(job, "--json").json["rounds"] == explained(job, 5, "--json").json["rounds"]


def test_from_topics_where_everything_was_published_twice(tmp_path: Path, job: Path) -> None:
    first = commands(job)[0]
    refused = encode_outcome(outcome(first, "refused", "paused: this executor is paused"))
    made = {kind: (job / f"{kind}.jsonl").read_bytes() for kind in ("rounds", "commands")}
    records = {kind: lines.splitlines() for kind, lines in made.items()} | {"outcomes": [refused]}
    for kind, lines in records.items():
        with FileTopicWriter(tmp_path / "topics" / kind) as topic:
            for _ in range(2):
                topic.append(lines)
    uris = {kind: file_topic_uri(tmp_path / "topics" / kind) for kind in records}
    named = [word for kind, uri in uris.items() for word in (f"--{kind}", uri)]

    by_uri = rebalancer("explain", "hot:1", *named)
    by_settings = rebalancer(
        "explain", "hot:1", *(f"--set=topics.{kind}={uri}" for kind, uri in uris.items())
    )

    assert "1 refused: paused" in by_uri.out
    assert by_uri == explained(tmp_path / "topics", "hot:1")
    assert (by_settings.code, by_settings.out) == (by_uri.code, by_uri.out)
    found = rebalancer("explain", first.bundle, *named, "--json").json["outcomes"]
    assert [(one["command_id"], one["status"]) for one in found] == [(first.id, "refused")]


def test_a_topic_of_outcomes_that_is_not_there(job: Path) -> None:
    answer = explained(job, "1", "--outcomes", "file:///nowhere")
    assert (answer.code, answer.out) == (1, "")
    assert "no such topic yet" in answer.err


def test_what_an_executor_would_answer_as_json(job: Path) -> None:
    limited = ("--set", "executor.actions=transfer", "--json", *NOW)
    answer = explained(job, commands(job)[0].bundle, *limited).json["executor_limits"]
    keys = ("actions", "command", "status", "code")
    assert [tuple(one[key] for key in keys) for one in answer] == [
        (["unload"], None, "refused", "action-not-allowed"),
        (["transfer"], None, None, None),
        (["split"], None, "refused", "action-not-allowed"),
    ]


def test_a_replay_keeps_the_outcomes_of_its_commands(job: Path, tmp_path: Path) -> None:
    """Telemetry has two of the first command, and one of a command of another job."""
    first, lines = commands(job)[0], uneven(rounds=5)
    dry = outcome(first, "dry-run")
    failed = outcome(first, "failed", "unanswered: the broker did not answer", 6)
    fed_back = (dry, failed, replace(dry, command_id="of another job"))
    lines[6:6] = map(encode_outcome_telemetry, fed_back)
    out, page = tmp_path / "out", tmp_path / "page.html"
    words = ("--out", out, "--html", page, "--json", *EAGER_WORDS)
    done = rebalancer("replay", recorded(tmp_path, lines, "answered.jsonl"), *words).json

    written = Path(done["files"]["outcomes"]).read_bytes().splitlines()
    assert [(one.command_id, one.status) for one in map(decode_outcome, written)] == [
        (commands(out)[0].id, "dry-run"),
        (commands(out)[0].id, "failed"),
    ]
    assert f"{first.bundle}: failed (unanswered" in explained(out, 1).out
    assert "transfer, failed" in page.read_text("utf-8")

    rebalancer("replay", tmp_path / "log.jsonl", "--out", out, *EAGER_WORDS)
    assert not (out / "outcomes.jsonl").exists(), "not even an old one"
    assert not (job / "outcomes.jsonl").exists()


KINDS = ("telemetry", "commands", "rounds", "rejected", "outcomes")


def a_job(folder: Path, cluster: str = "c") -> list[bytes]:
    """The rounds of a job on topics, which has held five of a hot and an idle broker."""
    lines = uneven(cluster, rounds=5)
    out = folder / f"replay-{cluster}"
    rebalancer("replay", recorded(folder, lines), "--out", out, *EAGER_WORDS)
    made = {kind: (out / f"{kind}.jsonl").read_bytes().splitlines() for kind in KINDS[1:3]}
    for kind, records in {"telemetry": lines, **made}.items():
        with FileTopicWriter(folder / kind) as topic:
            topic.append(records)
    return made["rounds"]


def status(folder: Path, *words: object) -> Answer:
    named = {f"topics.{kind}": file_topic_uri(folder / kind) for kind in KINDS}
    return rebalancer("status", *set_words(named | {"executor.state": folder / "executor"}), *words)


def test_several_clusters_and_one_of_them(tmp_path: Path) -> None:
    newest = [decode_round(a_job(tmp_path, name)[-1]) for name in ("east", "west")]
    both, one = status(tmp_path), status(tmp_path, "--cluster", "west")
    assert [line for line in both.out.splitlines() if line.startswith("cluster")] == [
        f"cluster {one.cluster}: was {one.state.code}" for one in newest if one.state is not None
    ]
    assert "cluster east" not in one.out
    unknown = status(tmp_path, "--cluster", "north")
    assert unknown.code == 1
    assert "north: no record names this cluster; there are east, west" in unknown.err


def test_status_as_json(tmp_path: Path) -> None:
    newest = json.loads(a_job(tmp_path)[-1])
    (tmp_path / "executor").mkdir()
    (tmp_path / "executor" / "pause").touch()
    answer = status(tmp_path, "--json").json
    assert (answer["kind"], answer["v"]) == ("status", 1)
    assert answer["executor"] == {"pause_file": f"{tmp_path}/executor/pause", "paused": True}
    (one,) = answer["clusters"]
    assert (one["round"], one["state"]) == (newest, newest["state"])
    assert (one["late"], one["sweep"]["brokers"]) == (True, ["hot:1", "idle:1"])
    assert {one["command"]["cluster"] for one in one["commands"]} == {"c"}

"""Status as a command: its sources, one cluster of several, and its JSON document. What it prints
is in tests/golden/status.txt.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.uri import file_topic_uri
from sinks.wire.codec import decode_round, encode_round
from tests.unit.command_line import Answer, rebalancer
from tests.unit.uneven_log import EAGER_WORDS, recorded, uneven

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
    settings = {**named, "executor.state": str(folder / "executor")}
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return rebalancer("status", *overrides, *words)


def test_without_any_record_the_screen_says_how_to_start(tmp_path: Path) -> None:
    answer = status(tmp_path)

    assert (answer.code, answer.out) == (1, "")
    assert "error: no round, report or command on file://" in answer.words
    assert "(settings: no settings file, " in answer.words
    assert not (tmp_path / "rounds").exists()


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


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = "[red]x[/red]\x1b[2J\n"
    hostile = replace(decode_round(a_job(tmp_path)[-1]), cluster=name)
    with FileTopicWriter(tmp_path / "rounds") as topic:
        topic.append([encode_round(hostile), b"not json"])

    answer = status(tmp_path)

    assert answer.code == 0
    assert "cluster [red]x[/red]\\u001b[2J\\u000a: was " in answer.out
    assert "\x1b" not in answer.out
    assert "skipped 1 record that is no round" in answer.err
    assert status(tmp_path, "--json").json["clusters"][0]["cluster"] == name


def test_as_json(tmp_path: Path) -> None:
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

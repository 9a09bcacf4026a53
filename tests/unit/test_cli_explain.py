"""Explain: commands, rounds, brokers and bundles in plain sentences, from files, topics and
folders; and unknown names.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.uri import file_topic_uri
from tests.telemetry_lines import bundle, intent
from tests.unit.command_line import Answer, rebalancer
from tests.unit.uneven_log import EAGER_WORDS, recorded, uneven

BUSIEST = bundle(7)


@pytest.fixture
def replayed(tmp_path: Path) -> Path:
    """Five rounds of a hot and an idle broker; the first one moves bundles."""
    rebalancer(
        "replay", recorded(tmp_path, uneven(rounds=5)), "--out", tmp_path / "out", *EAGER_WORDS
    )
    return tmp_path / "out"


def commands(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "commands.jsonl").read_bytes().splitlines()]


def explained(folder: Path, word: object, *more: str) -> Answer:
    return rebalancer("explain", word, "--from", folder, *more)


def without_age(answer: Answer) -> Answer:
    """How long ago the command expired changes from second to second."""
    return replace(answer, out=re.sub(r"expired \d+ s ago", "expired", answer.out))


def test_a_command_by_its_id_or_the_beginning_of_it(replayed: Path) -> None:
    first = commands(replayed)[0]

    whole, begun = explained(replayed, first["id"]), explained(replayed, str(first["id"])[:8])

    assert without_age(whole) == without_age(begun)
    assert whole.code == 0
    assert whole.out.startswith(
        f"command {first['id']} of cluster c, round 1, epoch 1\n  what: transfer "
        f"{first['bundle']} from hot:1 to idle:1\n"
    )
    for part in (
        "when: 2026-11-18",
        "which saw 2 brokers with a spread of 85.0 points",
        "[far-apart]",
        "expected: hot:1 from 90.0 % to",
    ):
        assert part in whole.out


def test_a_round(replayed: Path) -> None:
    answer = explained(replayed, 1)

    assert "round 1 of cluster c, epoch 1, at" in answer.out
    assert "closed because a collection pass was complete" in answer.out
    assert "broker hot:1: 90.0 %" in answer.out
    assert "hot:1 gives" in answer.out
    for command in commands(replayed):
        assert (f"command {command['id']}:" in answer.out) == (command["round"] == 1)


def test_a_broker_through_the_rounds(replayed: Path) -> None:
    answer = explained(replayed, "hot:1", "--last", "2")

    lines = answer.out.splitlines()
    assert lines[0] == "broker hot:1"
    assert lines[1] == "  (3 earlier rounds not shown; --last N shows more)"
    assert [line.split()[1] for line in lines if line.startswith("  round ")] == ["4", "5"]
    assert "gives" in explained(replayed, "hot:1").out
    assert "takes" in explained(replayed, "idle:1").out


def test_a_bundle_that_was_moved_and_one_that_was_left_alone(replayed: Path) -> None:
    moved = {str(command["bundle"]) for command in commands(replayed)}
    stayed = bundle(9)

    for name in moved:
        assert f"transfer {name} from hot:1 to idle:1, because" in explained(replayed, name).out
    assert "do not mention it" in explained(replayed, stayed).err
    assert "or the broker that serves it" in explained(replayed, stayed).err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("hot:2", "did you mean hot:1?"),
        ("77", "5 rounds (1 to 5) and 3 commands of epoch 1 do not mention it"),
        (
            "zzz",
            "name a round's number, latest, a command id, a bundle or its range, a broker "
            "(host or host:port) or a topic",
        ),
    ],
)
def test_what_nobody_mentions(replayed: Path, word: str, told: str) -> None:
    answer = explained(replayed, word)

    assert (answer.code, answer.out) == (1, "")
    assert told in answer.err


def test_as_json(replayed: Path) -> None:
    answer = explained(replayed, "hot:1", "--json").json

    assert (answer["kind"], answer["v"], answer["subject"]) == (
        "explanation",
        1,
        {"kind": "broker", "name": "hot:1"},
    )
    assert [one["round"] for one in answer["rounds"]] == [1, 2, 3, 4, 5]
    assert answer["commands"] == commands(replayed)


def test_from_topics_where_everything_was_published_twice(tmp_path: Path, replayed: Path) -> None:
    for kind in ("rounds", "commands"):
        with FileTopicWriter(tmp_path / "topics" / kind) as topic:
            for _ in range(2):
                topic.append((replayed / f"{kind}.jsonl").read_bytes().splitlines())

    uris = {kind: file_topic_uri(tmp_path / "topics" / kind) for kind in ("rounds", "commands")}
    by_uri = rebalancer(
        "explain", "hot:1", "--rounds", uris["rounds"], "--commands", uris["commands"]
    )
    by_settings = rebalancer(
        "explain",
        "hot:1",
        *(word for kind in uris for word in ("--set", f"topics.{kind}={uris[kind]}")),
    )
    by_folder = explained(tmp_path / "topics", "hot:1")

    assert by_uri == by_folder == explained(replayed, "hot:1")
    assert (by_settings.code, by_settings.out) == (by_uri.code, by_uri.out)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--from", "/nowhere"], 2, "/nowhere: no such file or folder"),
        (["--rounds", "pulsar://a:1/b", "--commands", "x"], 2, "names no topic"),
        (["--rounds", "file:///nowhere", "--commands", "x"], 1, "no such topic yet"),
    ],
)
def test_sources_that_are_not_there(words: list[str], code: int, told: str) -> None:
    answer = rebalancer("explain", "1", *words)

    assert (answer.code, answer.out) == (code, "")
    assert told in answer.err


def test_a_file_of_another_kind_is_named_with_the_record(replayed: Path) -> None:
    answer = rebalancer(
        "explain", "1", "--rounds", replayed / "commands.jsonl", "--commands", replayed
    )

    assert answer.code == 1
    assert f"{replayed / 'commands.jsonl'}: skipped " in answer.err
    assert "records that are no rounds [missing-field]: byte 0; " in answer.err
    assert "The file has no round; name another file." in answer.err


def test_one_cluster_of_two(tmp_path: Path) -> None:
    rebalancer(
        "replay",
        recorded(tmp_path, [*uneven("a"), *uneven("b")]),
        "--out",
        tmp_path / "out",
        *EAGER_WORDS,
    )

    both, one = explained(tmp_path / "out", 1), explained(tmp_path / "out", 1, "--cluster", "b")
    other = explained(tmp_path / "out", 1, "--cluster", "z")

    assert [line for line in both.out.splitlines() if line.startswith("round ")][
        1:
    ] == one.out.splitlines()[:1]
    assert (other.code, other.err) == (1, "error: z: no such cluster; there are a, b\n")


def test_a_line_that_a_killed_job_left_behind_hides_nothing(replayed: Path) -> None:
    whole = explained(replayed, 1)
    for kind in ("rounds", "commands"):
        file = replayed / f"{kind}.jsonl"
        first, *rest = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([first[:100], b"\n", first, *rest]))
    torn = explained(replayed, 1)
    assert (torn.code, torn.out) == (0, whole.out)
    assert [line.partition(" [")[0] for line in torn.err.splitlines()] == [
        f"warning: {replayed / kind}.jsonl: skipped 1 record that is no {kind[:-1]}"
        for kind in ("rounds", "commands")
    ]


def test_a_file_that_holds_no_records_at_all_is_named(replayed: Path) -> None:
    (replayed / "rounds.jsonl").write_text("these are\nno records\n")
    answer = explained(replayed, 1)
    assert answer.code == 1
    assert (
        "rounds.jsonl: skipped 2 records that are no rounds [not-json]: byte 0; byte 10. "
        in answer.err
    )


NOW = ("--set", "executor.state=/nowhere")


def limits_of(answer: Answer) -> list[str]:
    return [line.strip() for line in answer.out.splitlines() if line.startswith("  the executor")]


def test_what_an_executor_would_say_of_a_bundle_that_stays_or_moved(replayed: Path) -> None:
    moved = commands(replayed)[0]["bundle"]
    deny = ("--set", f"executor.deny={str(moved).rpartition('/')[0]}")

    allowed, denied = explained(replayed, moved, *NOW), explained(replayed, moved, *NOW, *deny)

    # The command of the recording has expired, so the words are about a command of this moment.
    assert limits_of(allowed) == [
        "the executor with these settings would unload, transfer or split this bundle now, if "
        "the owner and the destination, which the executor looks up then, still fit"
    ]
    (refused,) = limits_of(denied)
    assert refused.startswith(
        "the executor with these settings would refuse to unload, transfer or split this bundle "
        "now: namespace-denied: "
    )


def test_a_paused_executor_and_one_that_may_only_transfer(replayed: Path, tmp_path: Path) -> None:
    moved = str(commands(replayed)[0]["bundle"])
    (tmp_path / "pause").touch()

    paused = explained(replayed, moved, "--set", f"executor.state={tmp_path}")
    limited = explained(replayed, moved, *NOW, "--set", "executor.actions=transfer", "--json")

    assert "paused: this executor is paused" in limits_of(paused)[0]
    assert [
        (one["actions"], one["command"], one["status"], one["code"])
        for one in limited.json["executor_limits"]
    ] == [
        (["unload"], None, "refused", "action-not-allowed"),
        (["transfer"], None, None, None),
        (["split"], None, "refused", "action-not-allowed"),
    ]


def test_an_expired_command_without_an_outcome_is_no_longer_applied(replayed: Path) -> None:
    first = commands(replayed)[0]
    (line,) = limits_of(explained(replayed, first["id"], *NOW))
    assert line.startswith(f"the executor would no longer apply command {first['id']}: expired: ")


def test_brokers_and_rounds_have_no_executor_limits(replayed: Path) -> None:
    for word in ("hot:1", 1):
        assert limits_of(explained(replayed, word, *NOW)) == []
        assert explained(replayed, word, *NOW, "--json").json["executor_limits"] == []


def test_a_broker_that_is_being_drained(tmp_path: Path) -> None:
    """Who drains it, how far it is, and where each bundle goes."""
    lines = uneven(rounds=5)
    lines.insert(3, intent(61, broker="hot:1"))
    rebalancer("replay", recorded(tmp_path, lines), "--out", tmp_path / "out", *EAGER_WORDS)

    answer = explained(tmp_path / "out", "hot:1")
    whole = explained(tmp_path / "out", 2)

    assert "drain of hot:1 (Zoë: new disks) is draining: " in answer.out
    assert "because Zoë drains hot:1 (new disks); idle:1 " in answer.out
    assert "[being-drained]" in answer.out
    assert "drain of hot:1 (Zoë: new disks) is " in whole.out

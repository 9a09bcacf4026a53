"""Status: one screen per cluster from the topics, honest where they are empty, old, foreign or
hostile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.commands.status import status_lines
from pulsar_rebalancer.cli.pause import Pause
from pulsar_rebalancer.decisions.status import ClusterStatus, Status, read_status
from sinks.topics.connections import Connections
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.uri import file_topic_uri
from sinks.wire.codec import decode_command, decode_round, encode_rejected, encode_round
from sinks.wire.encoding import encode_outcome
from sinks.wire.origin import Origin
from sinks.wire.position import Position
from strategies.cluster.round_figures import Certificate
from strategies.errors import WireError
from strategies.settings import RoundSettings
from tests.changed_records import changed
from tests.control_topic import outcome
from tests.telemetry_lines import T0, intent, load_report, sweep
from tests.topic_uris import topics_of
from tests.unit.command_line import Answer, rebalancer
from tests.unit.uneven_log import EAGER_WORDS, recorded, uneven

KINDS = ("telemetry", "commands", "rounds", "rejected", "outcomes")
#: The last of five minutes of `uneven`, and a while later.
LATEST, LATER = T0 + 242_000, T0 + 260_000
NO_PAUSE = Pause(Path("/x/pause"), False)


def publish(folder: Path, kind: str, lines: Iterable[bytes]) -> None:
    with FileTopicWriter(folder / kind) as topic:
        topic.append(list(lines))


def a_job(folder: Path, cluster: str = "c", words: Iterable[str] = EAGER_WORDS) -> None:
    """Five rounds of a hot and an idle broker on topics; the first one moves bundles."""
    lines = uneven(cluster, rounds=5)
    out = folder / f"replay-{cluster}"
    rebalancer("replay", recorded(folder, lines, f"{cluster}.jsonl"), "--out", out, *words)
    publish(folder, "telemetry", lines)
    for kind in ("commands", "rounds"):
        publish(folder, kind, (out / f"{kind}.jsonl").read_bytes().splitlines())


def read(folder: Path, kind: str) -> list[bytes]:
    return b"".join(file.read_bytes() for file in sorted((folder / kind).iterdir())).splitlines()


def status(folder: Path, *words: object) -> Answer:
    named = {f"topics.{kind}": file_topic_uri(folder / kind) for kind in KINDS}
    settings = {**named, "executor.state": str(folder / "executor")}
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return rebalancer("status", *overrides, *words)


def screen(folder: Path, now_ms: int = LATER, pause: Pause = NO_PAUSE) -> str:
    """The screen at this time."""
    uris = {kind: file_topic_uri(folder / kind) for kind in KINDS}
    found = read_status(Connections(topics=topics_of(**uris)), now_ms)
    return "\n".join(status_lines(found, pause, now_ms, RoundSettings()))


def test_without_any_record_the_screen_says_how_to_start(tmp_path: Path) -> None:
    answer = status(tmp_path)

    assert (answer.code, answer.out) == (1, "")
    assert "error: no round, report or command on file://" in answer.words
    assert "(settings: no settings file, " in answer.words
    assert "Start `rebalancer collect` and then `rebalancer run`" in answer.words
    assert not (tmp_path / "rounds").exists()


def test_reports_without_a_round_say_that_no_round_has_closed(tmp_path: Path) -> None:
    publish(tmp_path, "telemetry", uneven(rounds=1))

    text = screen(tmp_path, T0 + 30_000)

    assert "cluster c: no round yet. Start `rebalancer run`" in text
    assert "newest report 29 s ago; newest sweep 28 s ago: 2 brokers" in text
    assert "commands: none yet" in text


def test_a_round_shows_its_state_what_to_do_and_since_when(tmp_path: Path) -> None:
    a_job(tmp_path)
    newest = decode_round(read(tmp_path, "rounds")[-1])
    assert newest.state is not None

    lines = screen(tmp_path).splitlines()

    assert lines[0] == f"cluster c: {newest.state.code}"
    assert lines[1:3] == [f"  {newest.state.text}.", f"  {newest.state.advice}"]
    assert "rounds); newest round 5 of epoch 1, 18 s ago" in lines[3]
    assert lines[4].startswith("  spread ")
    assert "newest report 19 s ago; newest sweep 18 s ago: 2 brokers" in lines[5]
    assert "executor: not paused on this machine (/x/pause does not exist)" in lines


@pytest.mark.parametrize(("best_spread", "said"), [(0.0, False), (0.0004, False), (0.05, True)])
def test_a_bound_is_shown_if_it_says_something(
    tmp_path: Path, best_spread: float, said: bool
) -> None:
    a_job(tmp_path)
    newest = decode_round(read(tmp_path, "rounds")[-1])
    bounded = replace(newest, certificate=Certificate(0.062, best_spread, 0.0, 0.0))

    lines = status_lines(
        Status((ClusterStatus("c", newest=bounded),), {}, ()), NO_PAUSE, LATER, RoundSettings()
    )

    assert ("whole bundles can reach" in "\n".join(lines)) == said


def test_drains_have_a_line(tmp_path: Path) -> None:
    lines = uneven(rounds=5)
    lines.insert(3, intent(61, broker="hot:1"))
    lines.insert(4, intent(62, broker="no:1", id="0b" * 16))
    rebalancer("replay", recorded(tmp_path, lines), "--out", tmp_path / "replay", *EAGER_WORDS)
    publish(tmp_path, "rounds", (tmp_path / "replay" / "rounds.jsonl").read_bytes().splitlines())

    text = screen(tmp_path)

    assert "  drain of hot:1 (Zoë: new disks) is draining: " in text
    assert "no:1" not in text, "a refused one is not active"


def test_a_state_lasts_since_the_first_round_in_a_row_with_it(tmp_path: Path) -> None:
    a_job(tmp_path, words=())
    rounds = [decode_round(line) for line in read(tmp_path, "rounds")]
    states = [one.state.code for one in rounds if one.state is not None]
    same = next((n for n, code in enumerate(reversed(states)) if code != states[-1]), len(states))

    uris = {kind: file_topic_uri(tmp_path / kind) for kind in KINDS}
    (found,) = read_status(Connections(topics=topics_of(**uris)), LATER).clusters

    assert (found.rounds, found.since_ms) == (same, rounds[-same].ts)


def test_commands_have_their_outcomes(tmp_path: Path) -> None:
    a_job(tmp_path)
    first, second, *_ = [decode_command(line) for line in read(tmp_path, "commands")]
    publish(
        tmp_path,
        "outcomes",
        [encode_outcome(outcome(first, "refused", "paused: this executor is paused"))],
    )

    early, late = screen(tmp_path), screen(tmp_path, second.expires_at_ms)

    assert f"{first.bundle} of hot:1 to idle:1: refused (paused: this executor" in early
    assert f"{second.bundle} of hot:1 to idle:1: no outcome yet" in early
    assert f"{second.bundle} of hot:1 to idle:1: no outcome: no executor answered" in late


def test_an_old_round_is_the_past(tmp_path: Path) -> None:
    a_job(tmp_path)

    text = screen(tmp_path, LATEST + 3_600_000)

    assert text.startswith("cluster c: was ")
    assert "no newer round: check with `rebalancer doctor`" in text
    assert "newest round 5 of epoch 1, 60 min ago" in text


def test_a_broker_without_an_answer_and_a_clock_ahead_are_named(tmp_path: Path) -> None:
    missing = {f"b{number}:1": "timed out" for number in range(5)}
    publish(
        tmp_path,
        "telemetry",
        [load_report("a:1", 9_000), sweep(1, "a:1", missing=missing)],
    )

    text = screen(tmp_path, T0 + 2_000)

    assert "newest report 2 h ahead of this machine's clock" in text
    assert "without an answer: b0:1 (timed out), b1:1 (timed out), b2:1 (timed out) and 2 m" in text


def test_several_clusters_and_one_of_them(tmp_path: Path) -> None:
    a_job(tmp_path, "east")
    a_job(tmp_path, "west")

    both, one = status(tmp_path), status(tmp_path, "--cluster", "west")

    assert [line for line in both.out.splitlines() if line.startswith("cluster")] == [
        f"cluster {name}: was {decode_round(read(tmp_path, 'rounds')[-1]).state.code}"  # type: ignore[union-attr]
        for name in ("east", "west")
    ]
    assert "cluster east" not in one.out
    unknown = status(tmp_path, "--cluster", "north")
    assert unknown.code == 1
    assert "north: no record names this cluster; there are east, west" in unknown.err


def test_the_pause_file_pauses_the_executor_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "executor").mkdir()
    (tmp_path / "executor" / "pause").touch()
    publish(tmp_path, "telemetry", uneven(rounds=1))

    answer = status(tmp_path)

    assert f"executor: paused: {tmp_path}/executor/pause exists" in answer.words
    assert "delete the file to continue" in answer.words
    assert status(tmp_path, "--json").json["executor"]["paused"] is True
    unknown = screen(tmp_path, pause=Pause(Path("/x/pause"), None))
    assert "this user may not look for /x/pause" in unknown


def test_rejected_records_are_counted_by_reason(tmp_path: Path) -> None:
    origin = Origin(Position("file:///t", 0, 0), b"{}", 2)
    rejected = [
        encode_rejected(WireError(code, "No."), origin, cluster)
        for code, cluster in (("clock-ahead", "c"), ("not-json", ""), ("clock-ahead", "c"))
    ]
    publish(tmp_path, "rejected", rejected)

    text = screen(tmp_path)

    assert "  rejected: 2 records in the last hour: 2 clock-ahead" in text
    assert "rejected records that name no cluster: 1 record in the last hour: 1 not-json" in text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = "[red]x[/red]\x1b[2J\n"
    a_job(tmp_path)
    rounds = [decode_round(line) for line in read(tmp_path, "rounds")]
    hostile = replace(rounds[-1], cluster=name)
    publish(tmp_path, "rounds", [encode_round(hostile)])

    answer = status(tmp_path)

    assert "cluster [red]x[/red]\\u001b[2J\\u000a: was " in answer.out
    assert "\x1b" not in answer.out
    assert status(tmp_path, "--json").json["clusters"][0]["cluster"] == name


def test_foreign_records_are_skipped_and_rounds_of_older_versions_have_no_state(
    tmp_path: Path,
) -> None:
    a_job(tmp_path)
    newest = decode_round(read(tmp_path, "rounds")[-1])
    older = replace(newest, round=newest.round + 1, state=None, version="0.0.9")
    publish(tmp_path, "rounds", [encode_round(older), b"not json"])
    publish(tmp_path, "telemetry", [b"[]", b"\xff", b'{"cluster": 7}'])
    publish(tmp_path, "rejected", [b"{}"])

    answer = status(tmp_path)

    assert answer.code == 0
    assert "cluster c: was without a state (a round of version 0.0.9)" in answer.out
    assert "skipped 1 record that is no round" in answer.err


def test_as_json(tmp_path: Path) -> None:
    a_job(tmp_path)

    answer = status(tmp_path, "--json").json

    assert (answer["kind"], answer["v"]) == ("status", 1)
    (one,) = answer["clusters"]
    newest = json.loads(read(tmp_path, "rounds")[-1])
    assert (one["round"], one["state"]) == (newest, newest["state"])
    assert (one["late"], one["sweep"]["brokers"]) == (True, ["hot:1", "idle:1"])
    assert {one["command"]["cluster"] for one in one["commands"]} == {"c"}


@pytest.mark.parametrize("words", [["--set", "topics.rounds=pulsar://a:1/b"], ["--last", "0"]])
def test_wrong_settings_and_wrong_use_exit_with_2(tmp_path: Path, words: list[str]) -> None:
    assert status(tmp_path, *words).code == 2


def test_what_brokers_do_not_measure_has_a_line_with_the_remedy(tmp_path: Path) -> None:
    unknown = {"usage": 0.5, "limit": -1000.0}
    lines = [
        changed(line, "report", "bandwidthIn", to=unknown)
        if json.loads(line).get("broker") == "idle:1"
        else line
        for line in uneven(rounds=5)
    ]
    rebalancer("replay", recorded(tmp_path, lines), "--out", tmp_path / "replay", *EAGER_WORDS)
    publish(tmp_path, "rounds", (tmp_path / "replay" / "rounds.jsonl").read_bytes().splitlines())

    (line,) = [one for one in screen(tmp_path).splitlines() if "resource-not-measured" in one]

    assert line.startswith("  idle:1: bandwidth_in not measured by 1 of 2 brokers, so all are")
    assert "loadBalancerOverrideBrokerNicSpeedGbps" in line

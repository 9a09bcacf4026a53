"""Records that are not of their topic's kind: reading commands skip them, count them and say where
they are.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.topics.open_topics import place
from sinks.topics.pulsar.partition import MessageId
from sinks.wire.record_decoding import Position
from strategies.cluster.model import LARGEST_TIME
from tests.control_topic import Control, command
from tests.telemetry_lines import bundle, load_report, sweep
from tests.unit.command_line import Answer, rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven

FOREIGN = [b"\x00\xff no JSON", b'{"hello":"world"}', b"[]", b"", b'"' + b"x" * 300]


def decided(folder: Path, kind: str) -> list[bytes]:
    """Rounds or commands of a replay, that is in the folder `out`."""
    log = recorded(folder, uneven(rounds=3))
    rebalancer("replay", log, "--out", folder / "out", *EAGER_WORDS)
    return (folder / "out" / f"{kind}.jsonl").read_bytes().splitlines()


@pytest.fixture
def control(tmp_path: Path) -> Control:
    """What a job left on its topics, with foreign records before, between and behind."""
    control = Control(tmp_path)
    for kind in ("rounds", "commands"):
        lines = decided(tmp_path, kind)
        first = json.loads(lines[0])
        later = json.dumps({**first, "v": 99}).encode()
        unknown = json.dumps({**first, "action": "explode", "closed_by": "magic"}).encode()
        control.write(
            kind, [later, *FOREIGN, *lines[:1], unknown, *lines[1:], *FOREIGN, later, later, later]
        )
    return control


def words(control: Control, *topics: str) -> list[str]:
    return [word for topic in topics for word in ("--set", f"topics.{topic}={control.uri(topic)}")]


def explained(control: Control, *more: str) -> Answer:
    return rebalancer("explain", "1", *words(control, "rounds", "commands"), *more)


def test_explain_reads_past_foreign_records_and_says_where_they_are(
    control: Control, tmp_path: Path
) -> None:
    whole = rebalancer("explain", "1", "--from", tmp_path / "out")
    assert explained(control, "--json").json["kind"] == "explanation"
    answer = explained(control)
    assert (answer.code, answer.out) == (0, whole.out)
    lines = answer.err.splitlines()[1:]
    sources = [control.uri("rounds")] * 6 + [control.uri("commands")] * 6
    assert [line.partition(": skipped ")[0] for line in lines] == [
        f"warning: {source}" for source in sources
    ]
    (later,) = (line for line in lines if "no command" in line and "unknown-version" in line)
    assert "4 records that are no commands [unknown-version]: segment 0, byte 0; segment" in later
    assert (later.count("byte"), " and 1 more. $.v is 99" in later) == (3, True)
    (unknown,) = (line for line in lines if "explode" in line)
    written = b"".join(file.read_bytes() for file in (tmp_path / "commands").iterdir())
    named = int(unknown.partition("byte ")[2].partition(".")[0])
    assert b"explode" in written[named:].splitlines()[0], "the place is that of the record"


def test_shadow_reads_past_foreign_records_on_all_three_topics(control: Control) -> None:
    one = bundle(1)
    control.write(
        "telemetry", [b"foreign", load_report("a:1", 0, {one: 10.0}), b"", sweep(1, "a:1")]
    )
    answer = rebalancer("shadow", "--json", *words(control, "telemetry", "rounds", "commands"))
    assert answer.code == 0
    assert answer.json["rounds"] == 3
    skipped = "skipped 2 records that are no telemetry records [not-json]: segment 0, byte 0; "
    assert f"{control.uri('telemetry')}: {skipped}" in answer.err
    assert "that are no rounds [unknown-version]" in answer.err
    assert "that are no commands [unknown-version]" in answer.err


@pytest.mark.heavy
def test_a_replay_of_a_topic_names_positions_of_the_topic(tmp_path: Path) -> None:
    control = Control(tmp_path)
    first, *rest = uneven()
    control.write("telemetry", [first, b"foreign", *rest])
    at = len(first) + 1
    told = rebalancer("replay", "--from-topic", control.uri("telemetry"))
    quiet = rebalancer(
        "replay", "--from-topic", control.uri("telemetry"), "--out", tmp_path / "out"
    )
    assert f"rejected not-json at segment 0, byte {at} of {control.uri('telemetry')}: " in told.out
    skipped = "skipped 1 record that is no usable telemetry record [not-json]"
    assert f"{skipped}: segment 0, byte {at}. " in quiet.err
    (row,) = (tmp_path / "out" / "rejected.jsonl").read_bytes().splitlines()
    assert (json.loads(row)["topic"], json.loads(row)["offset"]) == (control.uri("telemetry"), at)


def test_times_that_no_calendar_has_are_shown_as_they_are(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.write("rounds", decided(tmp_path, "rounds"))
    last = command("t/ns/0x00000000_0xffffffff", "hot:1", id="last", issued_at_ms=LARGEST_TIME)
    control.send(replace(last, expires_at_ms=LARGEST_TIME))
    answer = rebalancer("explain", "last", *words(control, "rounds", "commands"))
    assert answer.code == 0
    assert f"when: {LARGEST_TIME} ms" in answer.out


@pytest.mark.parametrize(
    ("topic", "offset", "named"),
    [
        ("kafka://h:1/t", 77, "partition 2, offset 77"),
        ("file:///folder", 77, "segment 2, byte 77"),
        ("pulsar+ssl://h:1/t/n/t", 77, "partition 2, message 0:0:77"),
        (
            "pulsar://h:1/t/n/t",
            MessageId(12, 34, 5_000).offset,
            "partition 2, message 12:34:4095 or a later one",
        ),
        ("log.jsonl", 77, "byte 77"),
    ],
)
def test_places_are_named_as_the_tools_of_the_topic_name_them(
    topic: str, offset: int, named: str
) -> None:
    assert place(Position(topic, 2, offset)) == named

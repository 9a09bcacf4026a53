"""Text of records on terminals and in text logs. Whatever brokers, programs and people wrote into
a record, each command prints it as text, on one line: no escape sequence reaches the terminal, and
no record forges a line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.cli.console import Sheet, show
from pulsar_rebalancer.cli.lazy import COMMANDS
from pulsar_rebalancer.cli.lines import put
from pulsar_rebalancer.cli.log_lines import Line, Log
from pulsar_rebalancer.settings.log import LogSettings
from sinks.printable import printable
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.uri import file_topic_uri
from sinks.wire.codec import (
    decode,
    decode_answer,
    decode_command,
    decode_rejected,
    decode_round,
)
from sinks.wire.encoding import encode_outcome, encode_rejected
from sinks.wire.origin import Origin
from sinks.wire.position import Position
from strategies.errors import WireError
from tests.control_topic import TOPICS, now_ms, outcome
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.set_words import set_words
from tests.telemetry_lines import T0, intent, line, policies, sweep
from tests.unit.command_line import Answer, rebalancer
from tests.unit.uneven_log import EAGER_WORDS, recorded, uneven

#: Colours, a title, a bell, a clear of the screen in one byte, a change of direction, line ends.
EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202etxet\u2028\x85\r\nFORGED"

Words = tuple[object, ...]


@dataclass(frozen=True)
class Scene:
    """A recording, topics and settings in which each text is hostile that a reader lets through."""

    folder: Path
    recording: Path
    command: str
    plan: str
    settings: tuple[str, ...]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("hostile")
    telemetry = [
        *uneven(rounds=3),
        sweep(70, "hot:1", "idle:1", missing={"silent:1": "no answer"}),
        policies(80),
        intent(90, broker="idle:1"),
        line("note", 95, note="event", text="a remark"),
        *uneven(rounds=5)[-10:],
        line("no kind at all", 300),
        b'{"v":1,"kind":"sweep"',
    ]
    out = folder / "replay"
    rebalancer("replay", recorded(folder, telemetry, "plain.jsonl"), "--out", out, *EAGER_WORDS)
    rounds, commands = (
        (out / f"{kind}.jsonl").read_bytes().splitlines() for kind in ("rounds", "commands")
    )
    given = [decode_command(one) for one in commands]
    hostile = {
        "telemetry": poisoned(telemetry, lambda value: decode(value, b"")),
        "rounds": poisoned(map(newer, rounds), of_cluster(decode_round)),
        "commands": poisoned(commands, of_cluster(decode_command)),
        "outcomes": poisoned(
            (encode_outcome(outcome(one, "failed", "unanswered: no answer")) for one in given),
            decode_answer,
        ),
        "rejected": poisoned(
            [
                encode_rejected(
                    WireError("not-json", "no JSON"), Origin(Position("t", 0, 0), b"{", 1), "c"
                )
            ],
            decode_rejected,
        ),
    }
    for kind, records in hostile.items():
        with FileTopicWriter(folder / kind) as writer:
            writer.append(records)
    places = {f"topics.{topic}": file_topic_uri(folder / topic) for topic in TOPICS}
    return Scene(
        folder,
        recorded(folder, hostile["telemetry"], "hostile.jsonl"),
        given[0].id,
        "1.1",
        tuple(set_words({**places, "executor.state": folder / "executor", "pulsar.cluster": "c"})),
    )


def newer(record: bytes) -> bytes:
    """A round of this hour: the others have no drains to show."""
    tree = json.loads(record)
    return _dumped({**tree, "ts": tree["ts"] + now_ms() - T0})


def of_cluster(read: Callable[[bytes], Any]) -> Callable[[bytes], object]:
    """Reads records that stay in their cluster: others are not for the processes here."""

    def read_ours(record: bytes) -> None:
        if read(record).cluster != "c":
            raise WireError("cluster", "of another cluster")

    return read_ours


def poisoned(records: Iterable[bytes], read: Callable[[bytes], object]) -> list[bytes]:
    """The records with hostile text at the end of each text that their reader accepts with it; a
    record that no reader accepts gets it in all of its texts.
    """
    return [_poisoned(record, read) for record in records]


def _poisoned(record: bytes, read: Callable[[bytes], object]) -> bytes:
    try:
        tree = json.loads(record)
    except ValueError:
        return record
    legal = _reads(read, record)
    for holder, key in list(_texts(tree)):
        before = holder[key]
        holder[key] = before + EVIL
        if legal and not _reads(read, _dumped(tree)):
            holder[key] = before
    return _dumped(tree)


def _dumped(tree: object) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode()


def _reads(read: Callable[[bytes], object], record: bytes) -> bool:
    with suppress(WireError):
        read(record)
        return True
    return False


def _texts(tree: Any) -> Iterator[tuple[Any, Any]]:
    places = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in places:
        if isinstance(value, str):
            yield tree, key
        elif isinstance(value, dict | list):
            yield from _texts(value)


#: Commands that print what they read, with the words that make them do it. `None`: nothing of a
#: record gets into the text of these, or only in log lines, which have a test of their own.
READERS: Mapping[str, Callable[[Scene], list[Words]] | None] = {
    "demo": None,
    "watch": None,
    "run": None,
    "notify": None,
    "serve": None,
    "simulate": None,
    "jars": None,
    "ship": None,
    "topics": None,
    "conformance": None,
    "state": None,
    "config": None,
    "drain": None,
    "undrain": None,
    "roll": None,
    "collect": lambda scene: [("collect", "--once", *scene.settings)],
    "execute": lambda scene: [("execute", "--once", *scene.settings)],
    "doctor": lambda scene: [("doctor", "--no-spark-start", *scene.settings)],
    "replay": lambda scene: [
        ("replay", scene.recording, *EAGER_WORDS),
        ("replay", scene.recording, "--json", *EAGER_WORDS),
    ],
    "record": lambda scene: [
        ("record", file_topic_uri(scene.folder / "telemetry"), scene.folder / "copy.jsonl")
    ],
    "convert": lambda scene: [("convert", scene.recording, scene.folder / "copy.parquet")],
    "trace": lambda scene: [("trace", scene.recording, scene.folder / "load.csv")],
    "backtest": lambda scene: [("backtest", scene.recording)],
    "upgrade-preview": lambda scene: [("upgrade-preview", scene.recording)],
    "tune": lambda scene: [("tune", scene.recording, "--budget", "2")],
    "status": lambda scene: [("status", *scene.settings), ("status", "--json", *scene.settings)],
    "plans": lambda scene: [
        ("plans", "list", *scene.settings),
        ("plans", "show", scene.plan, *scene.settings),
    ],
    "intents": lambda scene: [("intents", *scene.settings)],
    "explain": lambda scene: [
        ("explain", word, *more, *scene.settings)
        for word in (scene.command, "latest", "1", "hot:1", "idle:1", "silent:1")
        for more in ((), ("--json",))
    ],
    "shadow": lambda scene: [("shadow", scene.recording), ("shadow", *scene.settings)],
}
#: Those of them whose text of records is free, so that they show it here.
SHOWN = {"doctor", "replay", "status", "explain", "shadow", "plans", "intents"}


def test_a_new_command_is_asked_too() -> None:
    assert READERS.keys() == COMMANDS.keys()


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name, words in READERS.items() if words is not None])
def test_what_a_command_prints_of_a_hostile_record_is_text(scene: Scene, name: str) -> None:
    readers = READERS[name]
    assert readers is not None
    with FakePulsar(Cluster(version=f"4.2.4{EVIL}")) as pulsar:
        pulsar.fail("load-report", answered(500, EVIL.encode()))
        answers = [
            rebalancer(*words, "--set", f"pulsar.admin_urls={pulsar.admin_urls}")
            for words in readers(scene)
        ]

    assert {escape for answer in answers for escape in dangerous(answer)} == set()
    assert forged(answers) == []
    assert any("FORGED" in answer.out + answer.err for answer in answers) == (name in SHOWN)


def dangerous(answer: Answer) -> set[str]:
    return {c for c in answer.out + answer.err if c != "\n" and not c.isprintable()}


def forged(answers: Iterable[Answer]) -> list[str]:
    """Lines that a record begins."""
    lines = [text for answer in answers for text in (answer.out + answer.err).split("\n")]
    return [text for text in lines if text.lstrip().startswith("FORGED")]


def test_log_lines_of_text_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(LogSettings(format="text"), lambda: datetime(2026, 11, 28, tzinfo=UTC))
    log.write(EVIL)
    log.show(Line(EVIL, cluster=EVIL, level="error"))
    with suppress(SystemExit, Exception), log.errors(debug=False):
        raise WireError("code", EVIL)

    written = capsys.readouterr()
    lines = (written.out + written.err).splitlines()
    assert len(lines) == 3
    assert all(text.startswith("2026-11-28T00:00:00.000Z ") for text in lines)
    assert all(text.isprintable() for text in lines)


def test_tables_and_sentences_are_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    left: list[list[Any]] = [[(EVIL, "below"), "x"]]
    right: list[list[Any]] = [["x", EVIL]]
    show(EVIL, Sheet([(EVIL, "left"), ("b", "right")], left, title=EVIL))
    show(Sheet([("a", "left"), (EVIL, "right")], right))

    written = capsys.readouterr().out
    assert "below" in written
    assert {c for c in written if c != "\n" and not c.isprintable()} == set()


def test_what_is_printed_as_json_is_the_same_json() -> None:
    tree = {"text": f"{EVIL} \U000e0001 é → 😀", EVIL: 1}
    out = StringIO()
    put(json.dumps(tree, ensure_ascii=False), out)

    assert out.getvalue().removesuffix("\n").isprintable()
    assert json.loads(out.getvalue()) == tree


def test_letters_of_all_scripts_stay() -> None:
    assert printable("Zoë → 北京 😀") == "Zoë → 北京 😀"

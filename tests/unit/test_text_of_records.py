"""No record brings an escape sequence to a terminal or forges a line; errors are messages."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

from pulsar_rebalancer.cli.console import Sheet, show
from pulsar_rebalancer.cli.errors import reported
from pulsar_rebalancer.cli.main import COMMANDS, load
from pulsar_rebalancer.cli.service_log import Line, Log
from pulsar_rebalancer.settings.page_address_and_log_settings import LogSettings
from sinks.printable import printable, put
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.event_to_topic_rows import encode_rejected
from sinks.wire.record_decoding import (
    Origin,
    Position,
    decode,
    decode_answer,
    decode_command,
    decode_rejected,
    decode_round,
)
from sinks.wire.record_encoding import encode_outcome
from strategies.errors import PublishTimeout, RebalancerError, SettingsError, WireError
from tests.control_topic import TOPICS, now_ms, outcome
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.telemetry_lines import T0, intent, line, policies, sweep
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven
from tools.processes.set_words import set_words

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
    outcomes = (encode_outcome(outcome(one, "failed", "unanswered: no answer")) for one in given)
    origin = Origin(Position("t", 0, 0), b"{", 1)
    rejected = encode_rejected(WireError("not-json", "no JSON"), origin, "c")
    hostile = {
        "telemetry": poisoned(telemetry, lambda value: decode(value, b"")),
        "rounds": poisoned(map(newer, rounds), of_cluster(decode_round)),
        "commands": poisoned(commands, of_cluster(decode_command)),
        "outcomes": poisoned(outcomes, decode_answer),
        "rejected": poisoned([rejected], decode_rejected),
    }
    for kind, records in hostile.items():
        with FileTopicWriter(folder / kind) as writer:
            writer.append(records)
    places = {f"topics.{topic}": file_topic_uri(folder / topic) for topic in TOPICS}
    settings = set_words({**places, "executor.state": folder / "executor", "pulsar.cluster": "c"})
    recording = recorded(folder, hostile["telemetry"], "hostile.jsonl")
    return Scene(folder, recording, given[0].id, "1.1", tuple(settings))


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
    """The records with hostile text at the end of each text that their reader accepts with it."""
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


#: Nothing of a record gets into the text of these commands, or only in log lines, which have a test
#: of their own.
SILENT = {
    "demo", "watch", "run", "notify", "serve", "simulate", "jars", "ship", "topics", "conformance",
    "state", "config", "drain", "undrain", "roll", "pause", "resume",
}  # fmt: skip
#: Commands that print what they read, with the words that make them do it.
READERS: Mapping[str, Callable[[Scene], list[Words]]] = {
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
    "advise": lambda scene: [("advise", scene.recording)],
    "tune": lambda scene: [("tune", scene.recording, "--budget", "2")],
    "status": lambda scene: [("status", *scene.settings), ("status", "--json", *scene.settings)],
    "plans": lambda scene: [
        ("plans", "list", *scene.settings),
        ("plans", "show", scene.plan, *scene.settings),
    ],
    "intents": lambda scene: [("intents", *scene.settings)],
    "top": lambda scene: [("top", scene.recording), ("top", *scene.settings)],
    "export": lambda scene: [
        ("export", table, *scene.settings) for table in ("usage", "moves", "plans", "outcomes")
    ],
    "move": lambda scene: [("move", "t/ns", "--reason", "x", *scene.settings)],
    "unload": lambda scene: [("unload", "t/ns", "--reason", "x", *scene.settings)],
    "split": lambda scene: [("split", "largest", "--reason", "x", *scene.settings)],
    "undo": lambda scene: [("undo", "--reason", "x", *scene.settings)],
    "explain": lambda scene: [
        ("explain", word, *more, *scene.settings)
        for word in (scene.command, "latest", "1", "hot:1", "idle:1", "silent:1")
        for more in ((), ("--json",))
    ],
    "shadow": lambda scene: [("shadow", scene.recording), ("shadow", *scene.settings)],
}
#: Those of them whose text of records is free, so that they show it here.
SHOWN = {
    "doctor", "replay", "status", "explain", "shadow", "plans", "intents", "export", "move",
    "unload", "split", "undo",
}  # fmt: skip


def test_a_new_command_is_asked_too() -> None:
    assert {*READERS, *SILENT} == {*COMMANDS}


@pytest.mark.heavy
@pytest.mark.parametrize("name", READERS)
def test_what_a_command_prints_of_a_hostile_record_is_text(scene: Scene, name: str) -> None:
    with FakePulsar(Cluster(version=f"4.2.4{EVIL}")) as pulsar:
        pulsar.fail("load-report", answered(500, EVIL.encode()))
        answers = [
            rebalancer(*words, "--set", f"pulsar.admin_urls={pulsar.admin_urls}")
            for words in READERS[name](scene)
        ]

    text = "\n".join(answer.out + answer.err for answer in answers)
    assert dangerous(text) == set()
    assert [one for one in text.split("\n") if one.lstrip().startswith("FORGED")] == []
    assert ("FORGED" in text) == (name in SHOWN)


def dangerous(text: str) -> set[str]:
    return {c for c in text if c != "\n" and not c.isprintable()}


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
    assert dangerous(written) == set()


def test_what_is_printed_as_json_is_the_same_json_and_letters_of_all_scripts_stay() -> None:
    tree = {"text": f"{EVIL} \U000e0001 é → 😀", EVIL: 1}
    out = StringIO()
    put(json.dumps(tree, ensure_ascii=False), out)

    assert out.getvalue().removesuffix("\n").isprintable()
    assert json.loads(out.getvalue()) == tree
    assert printable("Zoë → 北京 😀") == "Zoë → 北京 😀"


ROOT = Path(__file__).parents[2]


def code_of(error: BaseException, debug: bool = False) -> int:
    with pytest.raises(typer.Exit) as caught, reported(debug):
        raise error
    return caught.value.exit_code


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (SettingsError(["a.b: wrong", "c: wrong too"]), 2, "a.b: wrong\nerror: c: wrong too"),
        (RebalancerError("do this instead"), 1, "do this instead"),
        (PublishTimeout("try again"), 1, "try again"),
        (FileNotFoundError(2, "No such file", "x.jsonl"), 1, "x.jsonl: No such file"),
        (OSError("disk on fire"), 1, "disk on fire"),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
            1,
            "pyspark is not installed, the streaming job needs it: pip install "
            "'pulsar-rebalancer[spark]'",
        ),
    ],
)
def test_an_error_is_a_message_and_a_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, told: str
) -> None:
    assert code_of(error) == code
    assert capsys.readouterr() == ("", f"error: {told}\n")


def test_a_bug_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(KeyError("x")) == 1

    said = capsys.readouterr().err
    assert said.startswith("error: this is a bug, please report it")
    assert "KeyError: 'x'" in said
    assert said.count("\n") == 1


def test_the_traceback_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code_of(RebalancerError("do this instead"), debug=True)

    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):")
    assert said.endswith("error: do this instead\n")


@pytest.mark.parametrize(
    "error", [typer.Exit(5), typer.Abort(), typer.BadParameter("x"), KeyboardInterrupt()]
)
def test_what_typer_handles_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), reported():
        raise error


@pytest.mark.parametrize(
    ("options", "debug", "shown"),
    [(["--debug"], "", True), ([], "1", True), ([], "", False), ([], "0", False)],
)
def test_debug_as_an_option_and_in_the_environment(
    options: list[str], debug: str, shown: bool
) -> None:
    environment = {"REBALANCER_DEBUG": debug} if debug else {}
    answer = rebalancer(*options, "replay", "none.jsonl", env=environment)
    assert (answer.code, "Traceback" in answer.err) == (2, shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_has_help_without_typers_own_options(name: str) -> None:
    answer = rebalancer(name, "--help", env={"COLUMNS": "80"})

    assert answer.code == 0
    assert answer.out.startswith("Usage: ")
    assert "--install-completion" not in answer.out
    assert load(name).name == name


def test_a_misspelled_command_no_command_and_the_version() -> None:
    misspelled, none = rebalancer("rn"), rebalancer()

    assert (misspelled.code, none.code) == (2, 2)
    assert "No such command 'rn'. Did you mean 'run'?" in misspelled.err
    assert rebalancer("--version").out.startswith("rebalancer 0.")


@pytest.mark.heavy
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_is_written_as_an_escape(
    tmp_path: Path, encoding: str, more: list[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in uneven("größe")))
    command = [sys.executable, "-m", "pulsar_rebalancer.cli.main", "replay", str(log), *more]

    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)

    shown = done.stdout.decode(encoding)
    if more:
        assert json.loads(shown)["clusters"][0]["cluster"] == "größe"
    else:
        assert "größe" in shown.replace(r"\xf6", "ö").replace(r"\xdf", "ß")
    assert done.stderr == b""

"""Lines of services: a time in front of each, or one JSON object each; and the width of tables."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from rich.console import Console

from pulsar_rebalancer.cli.console import Sheet
from pulsar_rebalancer.cli.service_log import Line, Log
from pulsar_rebalancer.settings.page_address_and_log_settings import LogSettings
from strategies.errors import SettingsError
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.command_line import Answer, rebalancer
from tests.unit.test_collector import REPORT
from tools.processes.set_words import set_words

NOON = datetime(2026, 11, 22, 12, 0, 0, 1000, tzinfo=UTC)
PLAIN, OBJECTS = Log(LogSettings(), lambda: NOON), Log(LogSettings("json"), lambda: NOON)
BUNDLE = "t/ns/0x00000000_0xffffffff"


def test_a_line_has_the_time_in_front(capsys: pytest.CaptureFixture[str]) -> None:
    PLAIN.write("a note")
    PLAIN.write(Line("it is late", "complaint", "warning", cluster="east"))
    PLAIN.show(Line("an answer"))
    told = capsys.readouterr()
    now = "2026-11-22T12:00:00.001Z"
    assert told.err == f"{now} a note\n{now} east: warning: it is late\n"
    assert told.out == f"{now} an answer\n"


def test_a_line_is_an_object_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    OBJECTS.write("a note")
    OBJECTS.write(Line("it is late", "complaint", "warning", {"broker": "a:1"}, cluster="east"))
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    now = {"ts": "2026-11-22T12:00:00.001Z"}
    assert first == {**now, "level": "info", "event": "note", "text": "a note"}
    late = {"level": "warning", "event": "complaint", "text": "it is late"}
    assert second == {**now, **late, "broker": "a:1", "cluster": "east"}


def test_what_ends_the_program_is_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, OBJECTS.errors(debug=False):
        raise SettingsError(["a.b: wrong", "c.d: wrong"])
    assert ended.value.exit_code == 2
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["level"] for line in told} == {"error"}
    assert [line["text"] for line in told] == ["a.b: wrong", "c.d: wrong"]


def executed(folder: Path, *more: str) -> Answer:
    control = Control(folder)
    with FakePulsar(Cluster(report=REPORT)) as pulsar:
        pulsar.cluster.owners[BUNDLE] = pulsar.cluster.brokers[0]
        control.send(command(BUNDLE, pulsar.cluster.brokers[0]))
        given = set_words(control.settings(pulsar__admin_urls=pulsar.admin_urls))
        return rebalancer("execute", "--once", *more, *given)


@pytest.mark.heavy
def test_every_line_of_execute_is_an_object(tmp_path: Path) -> None:
    done = executed(tmp_path, "--set", "log.format=json")
    assert done.code == 0, done.err
    (outcome,) = map(json.loads, done.out.splitlines())
    told = [outcome[name] for name in ("event", "status", "bundle")]
    assert told == ["outcome", "dry-run", BUNDLE]
    events = [json.loads(line)["event"] for line in done.err.splitlines()]
    assert (*events[:2], events[-1]) == ("settings", "starting", "stopped")


@pytest.mark.heavy
def test_outcomes_as_records_stay_as_they_are_published(tmp_path: Path) -> None:
    (told,) = executed(tmp_path, "--json", "--set", "log.format=json").out.splitlines()
    assert told.encode() == Control(tmp_path).read("outcomes")[0]


FIGURES = ("spread", "churn", "moves", "overload")
SHEET = Sheet(
    [("strategy", "left"), *((name, "right") for name in FIGURES)],
    [
        ["threshold/parity+LRUW", "13.4 (8.37–18.4)", "5.19", "3 (2–5)", "0"],
        ["avg/parity", "8.53", "1.5", "2", "1,000"],
    ],
    title="e7",
)


def lines(width: int) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(SHEET)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_wide_terminal_shows_one_table() -> None:
    told = lines(100)
    assert told[1].split() == ["strategy", *FIGURES]
    assert len(told) == 5


@pytest.mark.parametrize("width", [45, 50, 60])
def test_in_a_narrow_one_it_goes_on_below_and_no_figure_is_cut(width: int) -> None:
    told = lines(width)
    assert max(map(len, told)) <= width
    text = "\n".join(told)
    assert all(str(cell) in text for row in SHEET.rows for cell in row)
    assert [name for line in told for name in line.split() if name in FIGURES] == list(FIGURES)
    assert text.count("threshold/parity+LRUW") == text.count("strategy") > 1
    assert text.count("e7") == 1


def test_words_are_folded_where_even_two_columns_are_too_wide() -> None:
    assert max(map(len, lines(30))) <= 30

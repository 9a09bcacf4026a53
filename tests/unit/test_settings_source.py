"""Commands name the source of their settings; nothing found is an error with the next step."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.topics.topic_settings import file_topic_uri
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words

TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes", "approvals")
ASKS = [("status",), ("plans", "list"), ("plans", "show", "1"), ("intents",), ("explain",)]


def flags(folder: Path) -> list[str]:
    """Topics in this folder, by --set."""
    return set_words({f"topics.{name}": file_topic_uri(folder / name) for name in TOPICS})


def a_file(folder: Path) -> Path:
    lines = [f'{name} = "{file_topic_uri(folder / name)}"\n' for name in TOPICS]
    file = folder / "rebalancer.toml"
    file.write_text("[topics]\n" + "".join(lines), "utf-8")
    return file


@pytest.mark.parametrize("command", ASKS, ids=" ".join)
def test_topics_without_a_record_are_an_error_that_names_the_settings(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    answer = rebalancer(*command, *flags(tmp_path))

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("settings: no settings file, 6 flags\n")
    assert "--config" in answer.err.partition("error: ")[2]


@pytest.mark.parametrize("command", ASKS, ids=" ".join)
@pytest.mark.parametrize("by", ["--config", "REBALANCER_CONFIG"])
def test_the_settings_file_is_named(tmp_path: Path, command: tuple[str, ...], by: str) -> None:
    file = a_file(tmp_path)

    flag = (by, file) if by == "--config" else ()
    answer = rebalancer(*command, *flag, env={} if flag else {by: str(file)})

    assert answer.code == 1
    assert answer.err.startswith(f"settings: {file}\n")
    assert str(tmp_path / "rounds") in answer.err


def test_values_of_the_environment_are_counted(tmp_path: Path) -> None:
    answer = rebalancer("status", *flags(tmp_path), env={"REBALANCER_ROUND__INTERVAL_MS": "60000"})

    assert answer.err.startswith("settings: no settings file, 1 environment variable, 6 flags\n")


def test_doctor_fails_without_any_setting_and_names_what_it_has_read(tmp_path: Path) -> None:
    words = ("doctor", "--no-spark-start", "--json")
    answers = rebalancer(*words), rebalancer(*words, "--config", a_file(tmp_path))

    forgotten, named = (answer.json["findings"][0] for answer in answers)
    assert (answers[0].code, forgotten["check"], forgotten["status"]) == (1, "settings", "fail")
    assert (named["check"], named["status"]) == ("settings", "ok")
    assert "no settings file" in forgotten["text"]
    assert "--config or REBALANCER_CONFIG" in forgotten["remedy"]
    assert str(tmp_path / "rebalancer.toml") in named["text"]


@pytest.mark.parametrize("command", ["collect", "execute", "notify"])
def test_the_first_line_of_a_service_names_the_settings(tmp_path: Path, command: str) -> None:
    answer = rebalancer(command, "--config", a_file(tmp_path), "--once")

    assert answer.code == 2
    assert f"settings: {tmp_path / 'rebalancer.toml'}" in answer.err.splitlines()[0]


@pytest.fixture
def taken() -> Iterator[str]:
    """An address of this machine where something listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        (("serve",), "serve.listen"),
        (("serve",), "metrics.listen"),
        (("notify", "--once", "--set", "notices.url=http://127.0.0.1:1/"), "metrics.listen"),
    ],
    ids=["page", "metrics-of-the-page", "metrics-of-the-notifier"],
)
def test_a_port_that_is_taken_is_an_error(
    tmp_path: Path, taken: str, command: tuple[str, ...], setting: str
) -> None:
    answer = rebalancer(*command, *flags(tmp_path), "--set", f"{setting}={taken}")

    assert answer.code == 1
    assert f"{setting}: {taken} cannot be used" in answer.words

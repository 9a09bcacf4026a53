"""One place turns exceptions into messages and exit codes; help and commands load only what they
need.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from pulsar_rebalancer.cli.errors import reported
from pulsar_rebalancer.cli.lazy import COMMANDS, load
from strategies.errors import PublishTimeout, RebalancerError, SettingsError
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import uneven

ROOT = Path(__file__).parents[2]


def code_of(error: BaseException, debug: bool = False) -> int:
    with pytest.raises(typer.Exit) as caught, reported(debug):
        raise error
    return caught.value.exit_code


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            SettingsError(["a.b: wrong", "c: wrong too"]),
            2,
            "error: a.b: wrong\nerror: c: wrong too\n",
        ),
        (RebalancerError("do this instead"), 1, "error: do this instead\n"),
        (PublishTimeout("try again"), 1, "error: try again\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.jsonl"),
            1,
            "error: x.jsonl: No such file or directory\n",
        ),
        (OSError("disk on fire"), 1, "error: disk on fire\n"),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
            1,
            "error: pyspark is not installed, the streaming job needs it: pip install "
            "'pulsar-rebalancer[spark]'\n",
        ),
    ],
)
def test_an_error_is_a_message_and_a_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, told: str
) -> None:
    assert code_of(error) == code
    assert capsys.readouterr() == ("", told)


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


def test_debug_as_an_option_and_in_the_environment(shown: Callable[..., bool]) -> None:
    assert shown("--debug")
    assert shown(REBALANCER_DEBUG="1")
    assert not shown()
    assert not shown(REBALANCER_DEBUG="0")


@pytest.fixture
def shown() -> Callable[..., bool]:
    """Whether a failing command shows a traceback with these global options and this
    environment.
    """

    def run(*options: str, **environment: str) -> bool:
        answer = rebalancer(*options, "replay", "none.jsonl", env=environment)
        assert answer.code == 2
        return "Traceback" in answer.err

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_has_help_without_typers_own_options(name: str) -> None:
    answer = rebalancer(name, "--help", env={"COLUMNS": "80"})

    assert answer.code == 0
    assert answer.out.startswith("Usage: ")
    assert "--install-completion" not in answer.out
    assert load(name).name == name


def test_a_misspelled_command_and_no_command() -> None:
    misspelled, none = rebalancer("rn"), rebalancer()

    assert (misspelled.code, none.code) == (2, 2)
    assert "No such command 'rn'. Did you mean 'run'?" in misspelled.err


def test_version() -> None:
    assert rebalancer("--version").out.startswith("rebalancer 0.")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("encoding", "more"),
    [
        ("ascii", []),
        ("latin-1", []),
        *(
            pytest.param(*rest, marks=pytest.mark.heavy)
            for rest in [
                ("utf-8", []),
                ("ascii", ["--json"]),
                ("latin-1", ["--json"]),
                ("utf-8", ["--json"]),
            ]
        ),
    ],
)
def test_what_a_terminal_cannot_show_is_written_as_an_escape(
    tmp_path: Path, encoding: str, more: list[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in uneven("größe")))
    command = [sys.executable, "-m", "pulsar_rebalancer.cli.main", "replay", str(log), *more]

    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )

    shown = done.stdout.decode(encoding)
    if more:
        assert json.loads(shown)["clusters"][0]["cluster"] == "größe"
    else:
        assert "größe" in shown.replace(r"\xf6", "ö").replace(r"\xdf", "ß")
    assert done.stderr == b""

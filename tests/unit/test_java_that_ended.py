"""PySpark's accumulator server fails when Java ends. It prints nothing then, also when its thread
runs after the job has stopped the session.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from socketserver import BaseRequestHandler, BaseServer
from typing import Any, cast

import pytest

from streaming.session import quiet_after_end


class Server(BaseServer):
    """An accumulator server without a socket."""

    def fail(self) -> None:
        try:
            raise EOFError
        except EOFError:
            self.handle_error(cast(Any, None), ("127.0.0.1", 1))


@pytest.fixture
def java() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for Spark's Java."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def server(java: subprocess.Popen[bytes]) -> Server:
    made = Server(("127.0.0.1", 0), BaseRequestHandler)
    quiet_after_end(made, java, patience_s=0.1)
    return made


def test_a_failure_while_java_runs_is_printed(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fail()
    assert "EOFError" in capsys.readouterr().err


def test_a_failure_after_its_end_is_not(
    server: Server, java: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    java.kill()
    server.fail()
    server.fail()
    assert capsys.readouterr().err == ""

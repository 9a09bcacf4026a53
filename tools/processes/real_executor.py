"""The real executor in a folder of its own: `rebalancer execute` as a process that can be watched,
killed and begun again.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sinks.secret_file import Secret
from sinks.wire.signing_keys import SigningKey
from tests.control_topic import TOPICS, Control
from tools.processes.set_words import set_words

PROJECT = Path(__file__).parents[2]
TOKEN = "eyJhbGciOiJub25lIn0.the-token-that-is-secret.c2ln"
KEY = "the-key-that-is-secret-0123456789"


class HasAdminUrls(Protocol):
    """A fake cluster, or the settings of a real one."""

    @property
    def admin_urls(self) -> str: ...


def login(folder: Path, pulsar: HasAdminUrls, token: str) -> dict[str, object]:
    """Settings that reach the cluster with this token, which a file of the folder contains."""
    (folder / "token").write_text(token, "utf-8")
    return {
        "pulsar.cluster": "c",
        "pulsar.admin_urls": pulsar.admin_urls,
        "pulsar.token_file": folder / "token",
    }


class ExecutorEnded(AssertionError):
    """The executor ended without a request, or did not do in time what it was to do."""


class RealExecutor:
    """At most one process at a time; leaving the context kills it. What it prints is added to `out`
    and `log`.
    """

    def __init__(
        self, folder: Path, pulsar: HasAdminUrls, control: Control | None = None, **settings: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.control = control or Control(folder)
        self.key = SigningKey(Secret(KEY.encode()))
        self.out, self.log = folder / "out.txt", folder / "log.txt"
        self.words_seen = ""
        (folder / "key").write_text(KEY, "utf-8")
        given = {
            **login(folder, pulsar, TOKEN),
            "signing.key_file": folder / "key",
            "executor.state": folder / "state",
            "executor.arrival_timeout_ms": 500,
            "executor.max_per_minute": 0,
            **{f"topics.{name}": self.control.uri(name) for name in TOPICS},
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        self._words = set_words(given)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "RealExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, *more: str) -> None:
        """`rebalancer execute`."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("REBALANCER_")
        }
        with self.out.open("ab") as out, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pulsar_rebalancer.cli.main",
                    "execute",
                    *self._words,
                    *more,
                ],
                cwd=PROJECT,
                env={
                    **environment,
                    "REBALANCER_DEBUG": "1",
                },  # so that tracebacks are looked through as well
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )

    def look(self) -> None:
        """Keeps what every user of the machine can see of the process."""
        if self._process is not None:
            for name in ("cmdline", "environ"):
                try:
                    self.words_seen += Path(f"/proc/{self._process.pid}/{name}").read_text(
                        "utf-8", errors="replace"
                    )
                except OSError:
                    return

    def finish(self, *more: str, seconds: float = 300.0) -> int:
        """Works off all there is; the exit code. Raises ExecutorEnded when that takes too long."""
        self.start("--once", *more)
        self.look()
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ExecutorEnded(f"not done after {seconds:g} s: {self.last_words()}") from None
        finally:
            self.kill()

    def stop(self, number: signal.Signals, seconds: float = 300.0) -> int:
        """Asks for an end; the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, and the end of the process."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def kill_now(self) -> None:
        """SIGKILL from any thread, without waiting."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)

    def wait_until(self, true: Callable[[], bool], seconds: float = 300.0) -> None:
        """Looks often. Raises ExecutorEnded when the process ends by itself with an error, or
        `seconds` have passed.
        """
        deadline = time.monotonic() + seconds
        while not true():
            code = None if self._process is None else self._process.poll()
            if code not in (None, -signal.SIGKILL):
                raise ExecutorEnded(f"the executor has ended with {code}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise ExecutorEnded(f"nothing for {seconds:g} s: {self.last_words()}")
            time.sleep(0.002)

    @property
    def dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def pids(self) -> list[int]:
        """The process, if there is one."""
        return [] if self._process is None else [self._process.pid]

    def wait_for_end(self, seconds: float = 60.0) -> int:
        """The exit code of a start that is about to end."""
        assert self._process is not None
        return self._process.wait(seconds)

    def last_words(self) -> str:
        return self.log.read_text("utf-8", errors="replace")[-800:] if self.log.exists() else "none"

    def leaks(self) -> list[str]:
        """Where the token or the key can be read, but for their own files."""
        secrets = {"token": TOKEN.encode(), "key": KEY.encode()}
        found = [
            f"{name} in what the process list shows"
            for name, secret in secrets.items()
            if secret in self.words_seen.encode()
        ]
        for file in sorted(self.folder.rglob("*")):
            if file.is_file() and file.name not in secrets:
                content = file.read_bytes()
                found += [
                    f"{name} in {file.relative_to(self.folder)}"
                    for name, secret in secrets.items()
                    if secret in content
                ]
        return found

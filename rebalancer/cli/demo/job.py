"""The streaming job as a child process: `rebalancer run` with the demo's settings file, watched and always stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from strategies.errors import RebalancerError

#: How long a clean stop (the job finishes its batch) may take before the job is killed; after Ctrl-C or an error nobody wants to wait.
STOP_SECONDS, HURRIED_STOP_SECONDS = 30.0, 5.0
#: A run of a minute is over before optimising its code pays: without this Java needs half as much CPU again.
SHORT_RUN = "-XX:TieredStopAtLevel=1"


class JobFailed(RebalancerError):
    """The job ended although nobody asked it to."""


class JobProcess:
    """Runs from entering to leaving the context, in a session of its own so that Ctrl-C reaches only the demo, which then stops it."""

    def __init__(
        self,
        settings_file: Path,
        log: Path,
        command: tuple[str, ...] = (sys.executable, "-m", "rebalancer.cli.main", "run"),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._command = (*_ending_with_parent(), *command, "--config", str(settings_file))
        self._environment = _environment(environment)
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> JobProcess:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop(STOP_SECONDS if error is None else HURRIED_STOP_SECONDS)

    def check(self) -> None:
        """Raises JobFailed when the job is no longer there."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise JobFailed(f"the Spark job ended by itself ({_end(code)}): {_last_words(self.log)}; all it said is in {self.log}")

    def stop(self, patience: float) -> None:
        """Asks the job to finish its batch and go; kills it and whatever it started when it does not within `patience` seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill_session(process)


def _ending_with_parent() -> tuple[str, ...]:
    """Where Linux's `setpriv` is there, a demo that is killed outright takes the job along; elsewhere only a clean end does."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return () if setpriv is None else (setpriv, "--pdeathsig", "TERM", "--")


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """The job leads a process group; what is left of it (a JVM, Python workers) goes with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without settings, because the demo's file says everything, so that the run can be repeated from it; and with a JVM for short runs."""
    kept = {name: value for name, value in environment.items() if not name.startswith("REBALANCER_") or name == "REBALANCER_DEBUG"}
    return kept | {"JDK_JAVA_OPTIONS": f"{environment.get('JDK_JAVA_OPTIONS', '')} {SHORT_RUN}".strip()}


def _end(code: int) -> str:
    """An exit code or, as Python tells it with a negative number, a signal."""
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _last_words(log: Path) -> str:
    """The last line that looks like an error, or the last line at all."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "Error" in line or "Exception" in line]
    return (errors or lines or ["it said nothing"])[-1].rpartition("error: ")[2].rstrip(".")[:400]

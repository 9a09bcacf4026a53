"""The streaming job as a child process: `rebalancer run` with the demo's settings file, watched and
always stopped.
"""

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

#: Maximum time for a clean stop, in which the job finishes its batch; then the job is killed. After
#: Ctrl-C or an error it is shorter.
STOP_SECONDS, HURRIED_STOP_SECONDS = 30.0, 5.0
#: Optimising code does not pay in a run of a minute: without this option Java takes 1.5 times the
#: CPU time.
SHORT_RUN = "-XX:TieredStopAtLevel=1"


class JobFailed(RebalancerError):
    """The job ended before the demo stopped it."""


class JobProcess:
    """Runs the job as long as the context is open, in a session of its own: Ctrl-C reaches the demo
    only, which then stops the job.
    """

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(STOP_SECONDS if error is None else HURRIED_STOP_SECONDS)

    def check(self) -> None:
        """Raises JobFailed when the job's process has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise JobFailed(
                f"the Spark job ended by itself ({_end(code)}): {_last_error(self.log)}; its "
                f"log is {self.log}"
            )

    def stop(self, patience: float) -> None:
        """Asks the job to finish its batch and exit; after `patience` seconds, kills it and all
        processes it started.
        """
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
    """A prefix that ends the job when the demo is killed with SIGKILL. Empty without Linux's
    `setpriv`: then only a clean end stops it.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return () if setpriv is None else (setpriv, "--pdeathsig", "TERM", "--")


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kills the job's process group: the job, its JVM and its Python workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the product's variables, so that the run can be repeated from its settings file; with
    JVM options for short runs.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("REBALANCER_") or name == "REBALANCER_DEBUG"
    }
    return kept | {
        "JDK_JAVA_OPTIONS": f"{environment.get('JDK_JAVA_OPTIONS', '')} {SHORT_RUN}".strip()
    }


def _end(code: int) -> str:
    """How a process ended: its exit code, or the signal that Python reports as a negative
    number.
    """
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _last_error(log: Path) -> str:
    """The last line that looks like an error, otherwise the last line."""
    lines = [
        line.strip()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    errors = [line for line in lines if "error:" in line or "Error" in line or "Exception" in line]
    return (errors or lines or ["its log is empty"])[-1].rpartition("error: ")[2].rstrip(".")[:400]

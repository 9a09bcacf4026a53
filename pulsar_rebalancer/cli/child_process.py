"""A command of `rebalancer` as a child process of another one: started with a settings file,
checked, and always stopped.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from strategies.errors import RebalancerError

#: Maximum time for a clean stop, in which a job finishes its batch; then the process is killed.
#: After Ctrl-C or an error of a demo it is shorter.
STOP_SECONDS, HURRIED_STOP_SECONDS = 30.0, 5.0
#: Optimising code does not pay in a run of a minute: without this option Java takes 1.5 times the
#: CPU time.
SHORT_RUN = "-XX:TieredStopAtLevel=1"


class ChildFailed(RebalancerError):
    """A child process ended before its parent stopped it."""


class ChildProcess:
    """Runs a command as long as the context is open, in a session of its own: Ctrl-C reaches the
    parent only, which then stops the child.
    """

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] = os.environ,
        short_run: bool = False,
    ) -> None:
        """`what`: names the child in errors. `short_run`: of a minute or less; saves CPU time of
        Java.
        """
        self._what = what
        self._command = (*_ending_with_parent(), *command)
        self._environment = _environment(environment, short_run)
        self.log = log
        self._begin = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "ChildProcess":
        """Appends to the log, after what an earlier process wrote."""
        with self.log.open("ab") as log:
            self._begin = self.log.stat().st_size
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
        """Raises ChildFailed when the process has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise ChildFailed(
                f"{self._what} ended by itself ({_end(code)}): "
                f"{_last_error(self.log, self._begin)}; its log is {self.log}"
            )

    def terminate(self) -> None:
        """Asks the process to end, and does not wait."""
        if self._process is not None:
            self._process.terminate()

    def stop(self, patience: float) -> None:
        """Asks the process to finish its work and exit; after `patience` seconds, kills it and all
        processes it started.
        """
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        finally:
            # The process group: of a job, its JVM and its Python workers.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ending_with_parent() -> tuple[str, ...]:
    """A prefix that ends the child when its parent is killed with SIGKILL. Empty without Linux's
    `setpriv`: then only a clean end stops it.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return () if setpriv is None else (setpriv, "--pdeathsig", "TERM", "--")


def _environment(environment: Mapping[str, str], short_run: bool) -> dict[str, str]:
    """Without the product's variables, so that the run can be repeated from its settings file."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("REBALANCER_") or name == "REBALANCER_DEBUG"
    }
    options = f"{environment.get('JDK_JAVA_OPTIONS', '')} {SHORT_RUN}".strip()
    return kept | ({"JDK_JAVA_OPTIONS": options} if short_run else {})


def rebalancer_command(name: str, settings_file: Path) -> tuple[str, ...]:
    """The command line of a command of this program with a settings file."""
    return (
        sys.executable,
        "-m",
        "pulsar_rebalancer.cli.main",
        name,
        "--config",
        str(settings_file),
    )


def _end(code: int) -> str:
    """The end of a process: its exit code, or the signal that Python reports as a negative
    number.
    """
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _last_error(log: Path, begin: int) -> str:
    """The last line after byte `begin` that looks like an error, otherwise the last line."""
    text = log.read_bytes()[begin:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "Error" in line or "Exception" in line]
    return (errors or lines or ["its log is empty"])[-1].rpartition("error: ")[2].rstrip(".")[:400]

"""Starts a process that appends what it prints to a log, and waits until the log says that it is
ready.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.waiting import eventually


@dataclass(frozen=True)
class LoggedProcess:
    """`log_start`: where in the log the words of this process begin."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int

    def wait_until_ready(self, ready: str, seconds: float) -> None:
        """Returns when the log says `ready`."""
        eventually(
            lambda: self._says(ready),
            seconds,
            f"{self.name} was not ready in time, see {self.log}",
        )

    def _says(self, ready: str) -> bool:
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            text = log.read().decode(errors="replace")
        assert self.process.poll() is None, f"{self.name} ended by itself: {text[-2000:]}"
        return ready in text


def start_logged(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], *, session: bool
) -> LoggedProcess:
    """Starts the command in the folder of its log; it dies with us. `session`: in a session of its
    own.
    """
    log_start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*dying_with_us(), *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=log.parent,
            env=environment,
            start_new_session=session,
        )
    return LoggedProcess(name, process, log, log_start)


def dying_with_us() -> list[str]:
    """What to put before a command so that it dies with the thread that starts it."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

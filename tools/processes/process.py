"""`rebalancer …` as a process of its own whose words can be waited for; ended at the latest with
the block.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tools.processes.real_job import environment_of_a_short_run
from tools.processes.set_words import set_words
from tools.waiting import eventually

PROJECT = Path(__file__).parents[2]
_OF_A_TRACE = re.compile(r"Traceback|^\s+at [\w.$]+\(|^\s+File \"", re.MULTILINE)
#: Tracebacks are printed and not hidden.
WITH_TRACES = {"REBALANCER_DEBUG": "1"}


class Process:
    """A command with all that it prints on both outputs in `said`, added to `log`. `program`: its
    module; `environment`: more variables, `WITH_TRACES` for example.
    """

    def __init__(
        self,
        log: Path,
        *words: object,
        settings: Mapping[str, object] | None = None,
        program: str = "pulsar_rebalancer.cli.main",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        given = (*map(str, words), *set_words(settings or {}))
        self._words = [sys.executable, "-m", program, *given]
        self._environment = {**environment_of_a_short_run(), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """The same command again, after a kill."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words,
                cwd=PROJECT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8", errors="replace")

    @property
    def traces(self) -> list[str]:
        """Lines of stack traces of Python and Java."""
        return _OF_A_TRACE.findall(self.said)

    @property
    def last_line(self) -> str:
        return self.said.rstrip().rpartition("\n")[2]

    def wait_until(self, true: Callable[[], bool], seconds: float = 300) -> None:
        """Looks often; the process has to live meanwhile."""

        def looked() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"it has ended: {self.said[-2000:]}"
            return true()

        eventually(looked, seconds, lambda: f"it did not happen in time: {self.said[-2000:]}")

    def wait_for(self, words: str, seconds: float = 300) -> None:
        """Until it has said this."""
        self.wait_until(lambda: words in self.said, seconds)

    def ended(self, seconds: float = 300) -> int:
        """Waits for its end; the exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL to the process alone; what it has started goes on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, seconds: float = 300) -> int:
        """Asks for an end; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)

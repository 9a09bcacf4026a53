"""The real collector in a folder of its own: `rebalancer collect` as a process that can be killed
and begun again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.control_topic import Control
from tools.processes.real_executor import PROJECT, TOKEN, HasAdminUrls, login
from tools.processes.set_words import set_words


class RealCollector:
    """At most one process at a time; leaving the context kills it. What it prints is added to
    `log`.
    """

    def __init__(
        self, folder: Path, pulsar: HasAdminUrls, control: Control, interval_ms: int
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"
        given = login(folder, pulsar, TOKEN) | {
            "collector.pass_interval_ms": interval_ms,
            "topics.telemetry": control.uri("telemetry"),
        }
        self._words = set_words(given)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RealCollector:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """`rebalancer collect`."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("REBALANCER_")
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pulsar_rebalancer.cli.main", "collect", *self._words],
                cwd=PROJECT,
                env={**environment, "REBALANCER_DEBUG": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL, and the end of the process."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

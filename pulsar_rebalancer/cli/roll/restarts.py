"""Runs the restart command of a broker beside the process of a roll."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field

from sinks.processes import wall_clock_ms
from strategies.roll.roll_state import RollState

#: Environment variable with the broker's id, which is also `$1`.
BROKER_VARIABLE = "REBALANCER_BROKER"


@dataclass
class RestartCommands:
    """The commands that run, by broker. `command`: for `sh -c`; empty = a person restarts."""

    command: str
    state: RollState
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def begin(self, broker: str) -> None:
        """Starts the command in a session of its own: it outlives this process, so that a restart
        is never half done because a terminal was closed.
        """
        failed = None
        if self.command:
            try:
                self.running[broker] = subprocess.Popen(
                    ["sh", "-c", self.command, "sh", broker],
                    env={**os.environ, BROKER_VARIABLE: broker},
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # standard output is the roll's own result
                    start_new_session=True,
                )
            except OSError as error:
                failed = f"the command cannot be started ({error.strerror or error})"
        self.state.begin_restart(broker, wall_clock_ms(), failed)

    def poll(self) -> None:
        """Notes the commands that have ended."""
        for broker, process in list(self.running.items()):
            code = process.poll()
            if code is not None:
                del self.running[broker]
                self.state.end_command(broker, _failure(code))


def _failure(code: int) -> str | None:
    if code < 0:
        return f"its command was ended by signal {-code}"
    return f"its command ended with exit code {code}" if code else None

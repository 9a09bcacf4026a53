"""Runs the restart command of a broker beside the process of a roll."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field, replace

from strategies.roll.view import RestartRun, RollMemory, with_restart

#: Environment variable with the broker's id, which is also `$1`.
BROKER_VARIABLE = "REBALANCER_BROKER"


@dataclass
class RestartCommands:
    """`command`: for `sh -c`; empty = a person restarts. The commands that run, by broker."""

    command: str
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def begin(self, memory: RollMemory, broker: str, run: RestartRun) -> RollMemory:
        """Starts the command in a session of its own: it outlives this process, so that a restart
        is never half done because a terminal was closed.
        """
        if not self.command:
            return with_restart(memory, broker, run)
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
            return with_restart(memory, broker, replace(run, failed=failed))
        return with_restart(memory, broker, replace(run, running=True))

    def looked_at(self, memory: RollMemory) -> RollMemory:
        """The memory with what became of the commands."""
        for broker, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[broker]
            failed = None if code == 0 else _why(code)
            done = replace(memory.ran[broker], running=False, failed=failed)
            memory = with_restart(memory, broker, done)
        return memory


def _why(code: int) -> str:
    if code < 0:
        return f"its command was ended by signal {-code}"
    return f"its command ended with exit code {code}"

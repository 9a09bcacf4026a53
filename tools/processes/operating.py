"""An operator of a real cluster beside a running loop: `rebalancer drain`, `undrain` and `roll` as
processes of their own.
"""

import itertools
from dataclasses import dataclass, field

from strategies.cluster.intent_records_and_states import LASTING, IntentStatus
from tools.processes.loop import Loop
from tools.processes.process import Process

#: Generous: the machine may be busy with other things.
_LONG_S = 400.0


@dataclass(frozen=True)
class Said:
    """How a command ended, and all that it printed."""

    code: int
    text: str

    @property
    def last_line(self) -> str:
        return self.text.rstrip().rpartition("\n")[2]


@dataclass(frozen=True)
class Operator:
    """`loop`: whose topics and settings the commands use; their logs are in its folder."""

    loop: Loop
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def begins(self, *words: object) -> Process:
        """A command that runs; to be used as a context."""
        log = self.loop.folder / f"{words[0]}-{next(self._numbers)}.log"
        return Process(log, *words, *self.loop.words)

    def runs(self, *words: object) -> Said:
        """A command until its end."""
        with self.begins(*words) as process:
            code = process.ended(_LONG_S)
            return Said(code, process.said)

    def intents(self) -> tuple[IntentStatus, ...]:
        """By the newest round."""
        rounds = self.loop.rounds()
        return rounds[-1].intents if rounds else ()

    def active(self, action: str) -> list[IntentStatus]:
        """Intents of this action that have not ended."""
        return [one for one in self.intents() if one.action == action and one.state in LASTING]

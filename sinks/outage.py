"""What a process does while a server is away that has answered before: it tries again, ever more rarely, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strategies.errors import RebalancerError

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


@dataclass
class Outage:
    """The time since something worked last.

    `patience_s`: for how long it is endured. `wait`: sleeps so many seconds; True from it means that the process is to end. `say` hears
    one sentence per attempt.
    """

    patience_s: float
    wait: Callable[[float], bool]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _since: float | None = field(default=None, init=False)
    _pause: float = field(default=_FIRST_PAUSE_S, init=False)

    def over(self) -> None:
        """It works."""
        self._since, self._pause = None, _FIRST_PAUSE_S

    def endure(self, error: RebalancerError) -> None:
        """Says what is wrong and waits. Raises the error when trying again cannot help, or no patience is left."""
        now = self.clock()
        self._since = now if self._since is None else self._since
        if not error.retryable or now - self._since >= self.patience_s:
            raise error
        self.say(f"{error}; trying again in {self._pause:g} s")
        self.wait(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)

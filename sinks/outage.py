"""What a process does while a server is away that has answered before: it tries again, ever more rarely, and logs its begin and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strategies.errors import RebalancerError

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


@dataclass
class Outage:
    """The time since something worked last, as two threads see it: the one that works, and one that only asks (`sinks/watch.py`).

    `patience_s`: how long it is endured. `wait`: sleeps for a number of seconds; True from it means that the process is to end. `say`
    hears one sentence when an outage begins and one when it is over, whichever thread notices first.
    """

    patience_s: float
    wait: Callable[[float], bool]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _since: float | None = field(default=None, init=False)
    _pause: float = field(default=_FIRST_PAUSE_S, init=False)
    _said_at: float | None = field(default=None, init=False)
    _answering: bool = field(default=False, init=False)
    _missed: bool = field(default=False, init=False)
    _excused: bool = field(default=True, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def over(self) -> None:
        """It works."""
        self._since, self._pause, self._excused = None, _FIRST_PAUSE_S, True
        self._end()

    def endure(self, error: RebalancerError) -> None:
        """Logs what is wrong and waits. Raises the error when trying again cannot help, or no patience is left."""
        now = self.clock()
        self._since = now if self._since is None else self._since
        if not error.retryable or now - self._since >= self.patience_s:
            raise error
        # Where the servers answer, one failure may be left from the time before.
        excused, self._excused = self._excused and self._answering, False
        if not excused:
            self._begin(error)
        self.wait(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)

    def asked(self, error: RebalancerError | None) -> None:
        """The thread that only asks has this error, or None with an answer. It ends only outages that it has seen itself."""
        self._answering = error is None
        if error is not None:
            self._missed = True
            self._begin(error)
        elif self._missed:
            self._missed, self._excused = False, True
            self._end()

    def _begin(self, error: RebalancerError) -> None:
        with self._lock:
            if self._said_at is None:
                self._said_at = self.clock()
                self.say(f"{error}; trying again for up to {self.patience_s:g} s")

    def _end(self) -> None:
        with self._lock:
            if self._said_at is not None:
                self.say(f"the servers of the topics answer again after {self.clock() - self._said_at:.0f} s")
                self._said_at = None

"""What a process does while a server is away that has answered before: it tries again, ever more rarely, and logs its begin and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strategies.errors import RebalancerError

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_DOUBLINGS = 5


@dataclass
class RetryBackoff:
    """The time since something worked last, as two threads see it: the one that works, and one that only asks (`sinks/topics/watch.py`).

    `patience_s`: how long it is endured. `wait`: sleeps for a number of seconds; True from it means that the process is to end. `say`
    hears one sentence when an outage begins and one when it is over, whichever thread notices first.

    An outage lasts while the thread that asks has no answer, or the work fails: once where nothing asks, and twice in a row where the
    servers answer that thread, because a first failure may be left from before. Work that succeeds ends no outage that the other thread
    sees: on Pulsar, reading fails only when there is something to read.
    """

    patience_s: float
    wait: Callable[[float], bool]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    #: When the work that does not succeed failed first.
    _failing_since: float | None = field(default=None, init=False)
    #: How often it has failed since it last worked, or since the servers were back.
    _failures: int = field(default=0, init=False)
    #: Whether the servers answer the thread that asks; None before its first question.
    _answering: bool | None = field(default=None, init=False)
    _said_at: float | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def over(self) -> None:
        """It works."""
        with self._lock:
            self._failing_since, self._failures = None, 0
            self._tell()

    def wait_or_raise(self, error: RebalancerError) -> None:
        """Logs what is wrong and waits. Raises the error when trying again cannot help, or no patience is left."""
        now = self.clock()
        with self._lock:
            self._failing_since = now if self._failing_since is None else self._failing_since
            if not error.retryable or now - self._failing_since >= self.patience_s:
                raise error
            pause_s = min(_FIRST_PAUSE_S * 2 ** min(self._failures, _DOUBLINGS), _LONGEST_PAUSE_S)
            self._failures += 1
            self._tell(error)
        self.wait(pause_s)

    def asked(self, error: RebalancerError | None) -> None:
        """The thread that only asks has this error, or None with an answer."""
        with self._lock:
            if error is None and self._answering is False:
                self._failures = 0
            self._answering = error is None
            self._tell(error)

    def _tell(self, error: RebalancerError | None = None) -> None:
        away = self._answering is False or self._failures > (1 if self._answering else 0)
        if away and self._said_at is None and error is not None:
            self._said_at = self.clock()
            self.say(f"{str(error).rstrip('.')}; trying again for up to {self.patience_s:g} s")
        elif not away and self._said_at is not None:
            self.say(f"the servers of the topics answer again after {self.clock() - self._said_at:.0f} s")
            self._said_at = None

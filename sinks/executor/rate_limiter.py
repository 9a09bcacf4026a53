"""How fast commands may be begun: at most this number within any minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_MINUTE_S = 60.0
_SHORTEST_WAIT_S = 0.001


class RateLimiter:
    """Threads may share it; they wait for each other. A limit of 0 is none."""

    def __init__(
        self,
        per_minute: int,
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wait` sleeps for a number of seconds; True from it means that the program is to end.
        `clock` counts seconds.
        """
        self._per_minute = per_minute
        self._wait = wait
        self._clock = clock
        self._begun: deque[float] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> bool:
        """Waits until one more may be begun; False when the program is to end instead."""
        if self._per_minute == 0:
            return True
        with self._lock:
            while True:
                now = self._clock()
                while self._begun and self._begun[0] <= now - _MINUTE_S:
                    self._begun.popleft()
                if len(self._begun) < self._per_minute:
                    self._begun.append(now)
                    return True
                # A remainder that rounding has left would be waited for without ever passing.
                if self._wait(max(_SHORTEST_WAIT_S, self._begun[0] + _MINUTE_S - now)):
                    return False

"""Whether a process works and is ready: what `/healthz` and `/readyz` report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable


class Liveness:
    """Turns of the main loops of a process. Threads may share it.

    A process may have several loops, each with a name; one that stands still is enough to report
    the process as not working.
    """

    def __init__(
        self,
        limit_s: float,
        ready_after: str,
        *,
        loops: Iterable[str] = ("",),
        is_stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limit_s`: longest time between two turns of a loop. `ready_after`: what must succeed
        first, for the sentence of `/readyz`. `loops`: their names. `clock`: seconds.
        """
        self._limit_s = limit_s
        self._ready_after = ready_after
        self._is_stopping = is_stopping
        self._clock = clock
        self._lock = threading.Lock()
        self._turned = dict.fromkeys(loops, clock())
        self._ready = False

    def turned(self, *loops: str) -> None:
        """Records a turn of these loops; of all, if none is named."""
        with self._lock:
            self._turned |= dict.fromkeys(loops or self._turned, self._clock())

    def turning(self, wait: Callable[[float], bool]) -> Callable[[float], bool]:
        """The same function, which records a turn of all loops first: a loop that waits on purpose
        works.
        """

        def turn_and_wait(seconds: float) -> bool:
            self.turned()
            return wait(seconds)

        return turn_and_wait

    def succeeded(self) -> None:
        """Records that the first unit of work has succeeded; the process is ready from then on."""
        self._ready = True

    def not_healthy(self) -> str:
        """Why the process does not work, as a sentence; empty if it does."""
        with self._lock:
            loop, turned_s = min(self._turned.items(), key=lambda item: item[1])
        still_s = self._clock() - turned_s
        if still_s <= self._limit_s:
            return ""
        name = f"The main loop of {loop}" if loop else "The main loop"
        return (
            f"{name} has not turned for {still_s:.0f} s, more than {self._limit_s:.0f} s: read the "
            "log, then start the process again."
        )

    def not_ready(self) -> str:
        """Why the process is not ready, as a sentence; empty if it is."""
        if self._is_stopping():
            return "The process is stopping."
        return "" if self._ready else f"The process has not finished {self._ready_after} yet."

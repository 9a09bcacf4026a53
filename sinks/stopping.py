"""SIGTERM and Ctrl-C as a wish to stop: the work at hand is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stop(threading.Event):
    """Set when somebody wants an end; `by` is the name of the signal, empty for other reasons."""

    by = ""


@contextmanager
def stopping() -> Iterator[Stop]:
    """A Stop that is set by SIGTERM and SIGINT while this lasts. The same signal again ends the process the usual way."""
    stop = Stop()

    def ask(number: int, _frame: Any) -> None:
        stop.by = signal.Signals(number).name
        stop.set()
        signal.signal(number, before[number])

    before = {int(number): signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Graceful stop: on SIGTERM or Ctrl-C the process finishes its current work, then ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stop(threading.Event):
    """Set when the process is asked to stop. `by`: the name of the signal, empty for other reasons."""

    by = ""


@contextmanager
def stopping() -> Iterator[Stop]:
    """A Stop that SIGTERM and SIGINT set. A second signal of the same kind has its default effect, which ends the process."""
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

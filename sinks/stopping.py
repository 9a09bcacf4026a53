"""Graceful stop: on SIGTERM or Ctrl-C the process finishes its current work, then ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Stop(threading.Event):
    """Set when the process is asked to stop. `by`: the name of the signal, empty for other
    reasons.
    """

    by = ""


@contextmanager
def stopping(stop: Stop | None = None) -> Iterator[Stop]:
    """A Stop that SIGTERM and SIGINT set. A second signal of the same kind has its former
    effect.
    """
    stop = stop or Stop()

    def ask(number: int, _frame: Any) -> None:
        stop.by = signal.Signals(number).name
        stop.set()
        signal.signal(number, before[number])

    before = {int(number): signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with handling(ask, *before):
        yield stop


@contextmanager
def handling(handler: Callable[[int, Any], None], *numbers: int) -> Iterator[None]:
    """These signals call `handler` while this lasts. Only the main thread can set handlers; in
    others nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)

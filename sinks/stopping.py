"""Graceful stop: on SIGTERM or Ctrl-C the process finishes its current work, then ends."""

from __future__ import annotations

import io
import os
import select
import signal
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast


class Stop(threading.Event):
    """Set when the process is asked to stop. `by`: the name of the signal, empty for other
    reasons.
    """

    by = ""

    def is_set(self) -> bool:
        return bool(self.by) or super().is_set()

    def ask(self, by: str) -> None:
        """Sets it from the handler of a signal. Another thread does so: the handler interrupts the
        main thread, which may hold the lock of this event, in `wait`, and would wait for itself.
        """
        self.by = by
        start_new_thread(self.set, ())


@contextmanager
def stopping(stop: Stop | None = None) -> Iterator[Stop]:
    """A Stop that SIGTERM and SIGINT set. A second signal of the same kind has its former
    effect.
    """
    stop = stop or Stop()

    def ask(number: int, _frame: Any) -> None:
        stop.ask(signal.Signals(number).name)
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


@contextmanager
def interruptible(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """The stream for reading, so that a signal's handler always runs at once; nothing may have been
    read from it before. The stream itself in threads other than the main one, and if it is no file
    of the system.

    An ordinary read waits on when a signal arrives just before it: Python runs handlers between its
    own steps, and the read has no further step until there is input.
    """
    try:
        source = stream.fileno()
    except OSError:
        source = -1
    if source < 0 or threading.current_thread() is not threading.main_thread():
        yield stream
        return
    signalled, signals = os.pipe()
    os.set_blocking(signals, False)
    earlier = signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
    try:
        yield cast(IO[bytes], io.BufferedReader(_Interruptible(source, signalled)))
    finally:
        signal.set_wakeup_fd(earlier)
        os.close(signalled)
        os.close(signals)


class _Interruptible(io.RawIOBase):
    """Waits for input, and for the bytes that signals write to `signalled`."""

    def __init__(self, source: int, signalled: int) -> None:
        self._source, self._signalled = source, signalled

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while True:
            ready, _, _ = select.select([self._source, self._signalled], [], [])
            if self._signalled in ready:
                os.read(self._signalled, io.DEFAULT_BUFFER_SIZE)
            elif self._source in ready:
                return os.readv(self._source, [buffer])

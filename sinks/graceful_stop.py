"""Supports every process: a graceful stop (on SIGTERM or Ctrl-C it finishes its current work,
then ends), work that is repeated in a thread, the machine's clock, and rare searches for cycles.
"""

import gc
import io
import os
import select
import signal
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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


def wall_clock_ms() -> int:
    """Now, in ms since the epoch."""
    return time.time_ns() // 1_000_000


@contextmanager
def repeated(
    work: Callable[[threading.Event], object],
    every_s: float,
    name: str,
    *,
    used: ExitStack | None = None,
    end_s: float = 1.0,
) -> Iterator[None]:
    """Does the work while the context lasts, each time after a pause of `every_s`, in a thread with
    this name. The work gets the event that says that it has ended, and raises nothing. `used`: what
    the work uses, which its thread closes; `end_s`: longest wait for work that is running at the
    end.
    """
    ended = threading.Event()

    def run() -> None:
        with used or ExitStack():
            while not ended.wait(every_s):
                work(ended)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(end_s)


#: New objects after which Python searches, instead of its 700; a record of 8 MiB makes fewer.
_SELDOM = 200_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within it, cycles are searched for rarely. A large record makes Python search everything that
    the process knows, the state of all clusters too, several times; a fold makes no cycles. In a
    back-test the searches take a fifth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(_SELDOM, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)

"""Work that is done every few seconds beside the main work, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


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

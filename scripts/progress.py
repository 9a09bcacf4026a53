"""Plain lines on standard error while something takes long, one every few seconds."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 5.0


def say(text: str) -> None:
    """One line, at once."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def reporting(progress: Callable[[], str], every_s: float = EVERY_S) -> Iterator[None]:
    """Prints `progress()` every `every_s` seconds while the context is open."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(every_s):
            say(f"  {progress()}")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()

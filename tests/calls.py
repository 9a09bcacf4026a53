"""Watches calls of Python functions, where a test counts them."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def watched_calls(see: Callable[[FrameType], None]) -> Iterator[None]:
    """Passes the frame of every call to `see`, in this thread and in those that start meanwhile."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            see(frame)

    before = sys.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)

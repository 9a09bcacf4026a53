"""Waits for what happens in other processes and threads, and leaves them the machine meanwhile."""

import time
from collections.abc import Callable

_SHORTEST_S, _LONGEST_S = 0.03, 4.0


def eventually(
    true: Callable[[], bool],
    seconds: float = 180,
    otherwise: str | Callable[[], str] = "it did not happen in time",
    every_s: float | None = None,
) -> None:
    """Looks `every_s` seconds, or so often that looking takes a quarter of the time: reading a
    topic again costs as much as the job that is waited for. AssertionError with the text of
    `otherwise` when it does not come true in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if true():
            return
        assert began < deadline, otherwise if isinstance(otherwise, str) else otherwise()
        time.sleep(
            min(_LONGEST_S, max(_SHORTEST_S, 3 * (time.monotonic() - began)))
            if every_s is None
            else every_s
        )

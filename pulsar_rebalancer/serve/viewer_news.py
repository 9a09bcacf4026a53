"""Announces new snapshots to the viewers who wait for them, from a thread of another kind."""

from __future__ import annotations

import asyncio

#: Viewers at a time.
MOST_VIEWERS = 200


class ViewerNews:
    """The viewers that wait. `open` and `close` are called in the event loop, `announce` in any
    thread.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ended = False

    @property
    def viewers(self) -> int:
        """Number of viewers."""
        return len(self._waiting)

    def open(self) -> asyncio.Event | None:
        """The event that announces changes to one more viewer; None if there are too many."""
        self._loop = asyncio.get_running_loop()
        if len(self._waiting) >= MOST_VIEWERS or self.ended:
            return None
        event = asyncio.Event()
        self._waiting[id(event)] = event
        return event

    def close(self, event: asyncio.Event) -> None:
        """Forgets a viewer."""
        self._waiting.pop(id(event), None)

    def announce(self) -> None:
        """Wakes all viewers."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Wakes all viewers for the last time; called in the event loop."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting.values():
            event.set()

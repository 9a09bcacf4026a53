"""Signals as in a terminal: tests that a script starts in its background, and all their processes, would ignore SIGINT."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

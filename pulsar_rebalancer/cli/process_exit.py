"""Ends the process without the interpreter's finalization if a C++ client was used.

Threads of pulsar-client end shortly after `close()` returns, and they hold Python objects: the
token supplier, callbacks of sent messages. During finalization CPython before 3.14 ends a foreign
thread that requests the interpreter with `pthread_exit`; C++ answers that with `terminate called
without an active exception`, and the process aborts with 134.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.lines import put

#: The compiled part of pulsar-client; importing the Python package alone does not load it.
_NATIVE = "_pulsar"


def leave(code: int) -> NoReturn:
    """Exits with this code, whatever threads of a C++ client are still doing."""
    if _NATIVE not in sys.modules:
        sys.exit(code)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    abandon(code)


def abandon(code: int) -> NoReturn:
    """Exits at once with this code: threads that still wait for servers are not waited for."""
    os._exit(code if _flushed() else code or exit_codes.ERROR)


def code_of(end: SystemExit) -> int:
    """The exit code that the interpreter would use; prints a text, as the interpreter does."""
    if end.code is None or isinstance(end.code, int):
        return end.code or exit_codes.OK
    put(str(end.code), sys.stderr)
    return exit_codes.ERROR


def _flushed() -> bool:
    """Flushes the standard streams; False if a reader has closed the pipe."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return False
    return True

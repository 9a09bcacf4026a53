"""Ends the process without the interpreter's finalization where a C++ client was used.

Threads of pulsar-client end a moment after `close()` has returned, and they hold Python objects: the supplier of the token, callbacks of
sent messages. CPython before 3.14 ends a foreign thread that asks for the interpreter during finalization with `pthread_exit`. C++ answers
that with `terminate called without an active exception`, and the process aborts with 134.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn

from rebalancer.cli import exits

#: The compiled part of pulsar-client; modules that only name the package do not load it.
_NATIVE = "_pulsar"


def leave(code: int) -> NoReturn:
    """Exits with this code, whatever threads of a C++ client still do."""
    if _NATIVE not in sys.modules:
        sys.exit(code)
    _join()
    atexit._run_exitfuncs()
    os._exit(code if _flushed() else code or exits.ERROR)


def abandon(code: int) -> NoReturn:
    """Exits at once with this code: threads that still wait for servers are not waited for."""
    os._exit(code if _flushed() else code or exits.ERROR)


def code_of(end: SystemExit) -> int:
    """The exit code that the interpreter would give it; a text is printed, as the interpreter does."""
    if end.code is None or isinstance(end.code, int):
        return end.code or exits.OK
    print(end.code, file=sys.stderr)
    return exits.ERROR


def _join() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _flushed() -> bool:
    """Whether everything that was printed is written; the reader may have gone away."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return False
    return True

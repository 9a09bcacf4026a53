"""Converts exceptions to a message on standard error and an exit code, which no other module does,
and ends the process without the interpreter's finalization if a C++ client was used.

Threads of pulsar-client end shortly after `close()` returns, and they hold Python objects: the
token supplier, callbacks of sent messages. During finalization CPython before 3.14 ends a foreign
thread that requests the interpreter with `pthread_exit`; C++ answers that with `terminate called
without an active exception`, and the process aborts with 134.
"""

import atexit
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from pulsar_rebalancer.cli import exit_codes
from sinks.durable_files import is_full, make_room
from sinks.printable import put
from strategies.errors import RebalancerError, SettingsError

#: Modules that may be missing → what to say of one.
_PARTS: Mapping[tuple[str, ...], str] = {
    ("pyspark", "py4j", "pyarrow", "pandas", "google"): (
        "{} is not installed, the streaming job needs it: pip install 'pulsar-rebalancer[spark]'"
    ),
    ("starlette", "uvicorn"): (
        "{} is not installed, the live page needs it: pip install 'pulsar-rebalancer[serve]'"
    ),
    ("pulsar_rebalancer.lab",): (
        "the laboratory, which this command belongs to, is not installed here, as in the image "
        "of the executor: use the image of the job (docker/job.Dockerfile), or pip install "
        "pulsar-rebalancer on another machine"
    ),
}


#: The compiled part of pulsar-client; importing the Python package alone does not load it.
_NATIVE = "_pulsar"


def _to_stderr(text: str) -> None:
    put(f"error: {text}", sys.stderr)


@contextmanager
def reported(debug: bool = False, complain: Callable[[str], None] = _to_stderr) -> Iterator[None]:
    """Turns exceptions of the block into one message and an exit code, except those that typer
    handles itself.

    `complain`: prints a message without level.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, TyperException):
        raise
    except BrokenPipeError:
        # Otherwise the interpreter reports another error at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(exit_codes.ERROR) from None
    except Exception as error:
        if debug or os.environ.get("REBALANCER_DEBUG", "") not in ("", "0"):
            traceback.print_exc()
        for text in error.complaints if isinstance(error, SettingsError) else [_text(error)]:
            complain(text)
        code = exit_codes.SETTINGS if isinstance(error, SettingsError) else exit_codes.ERROR
        raise typer.Exit(code) from error


def _text(error: Exception) -> str:
    """The message of an exception; an unexpected one is a part that is not installed, or a bug."""
    if isinstance(error, RebalancerError):
        return str(error)
    if isinstance(error, OSError):
        return _sentence(error)
    if isinstance(error, ModuleNotFoundError):
        for names, sentence in _PARTS.items():
            if error.name in names:
                return sentence.format(error.name)
    return (
        f"this is a bug, please report it with the command you ran: {type(error).__name__}: "
        f"{error} "
        "(REBALANCER_DEBUG=1 shows where it happened)"
    )


def _sentence(error: OSError) -> str:
    """`path: reason`, as in other command line tools; of a full disk with the next step."""
    reason = error.strerror or str(error)
    said = reason if error.filename is None else f"{error.filename}: {reason}"
    if not is_full(error):
        return said
    named = [Path(tempfile.gettempdir()), Path.cwd()]
    return f"{said}; {make_room(named if error.filename is None else [Path(error.filename)])}"


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

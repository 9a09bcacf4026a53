"""Converts exceptions to a message on standard error and an exit code. No other module does
this.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer
from typer.exceptions import TyperException

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.lines import put
from sinks.full_disk import is_full, make_room
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

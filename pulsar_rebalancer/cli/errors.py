"""Converts exceptions to a message on standard error and an exit code. No other module does
this.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from typer.exceptions import TyperException

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.lines import put
from sinks.disk import is_full, make_room
from strategies.errors import RebalancerError, SettingsError

_SPARK = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "google"})
_PAGE = frozenset({"starlette", "uvicorn"})
_LABORATORY = "pulsar_rebalancer.lab"


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
    except RebalancerError as error:
        _show_traceback(debug)
        for text in error.complaints if isinstance(error, SettingsError) else [str(error)]:
            complain(text)
        raise typer.Exit(
            exit_codes.SETTINGS if isinstance(error, SettingsError) else exit_codes.ERROR
        ) from error
    except OSError as error:
        _show_traceback(debug)
        complain(_sentence(error))
        raise typer.Exit(exit_codes.ERROR) from error
    except Exception as error:
        _show_traceback(debug)
        complain(_unexpected(error))
        raise typer.Exit(exit_codes.ERROR) from error


def _unexpected(error: Exception) -> str:
    """The message of an unexpected exception: a part that is not installed, or a bug."""
    if isinstance(error, ModuleNotFoundError) and error.name in _SPARK:
        return (
            f"{error.name} is not installed, the streaming job needs it: pip install "
            "'pulsar-rebalancer[spark]'"
        )
    if isinstance(error, ModuleNotFoundError) and error.name in _PAGE:
        return (
            f"{error.name} is not installed, the live page needs it: pip install "
            "'pulsar-rebalancer[serve]'"
        )
    if isinstance(error, ModuleNotFoundError) and error.name == _LABORATORY:
        return (
            "the laboratory, which this command belongs to, is not installed here, as in the image "
            "of the executor: use the image of the job (docker/job.Dockerfile), or pip install "
            "pulsar-rebalancer on another machine"
        )
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


def _show_traceback(debug: bool) -> None:
    if debug or os.environ.get("REBALANCER_DEBUG", "") not in ("", "0"):
        traceback.print_exc()

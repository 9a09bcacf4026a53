"""The one place where an exception becomes a message on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from typer.exceptions import TyperException

from rebalancer.cli import exits
from strategies.errors import RebalancerError, SettingsError

_SPARK = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "google"})


def _to_stderr(text: str) -> None:
    print(f"error: {text}", file=sys.stderr)


@contextmanager
def reported(debug: bool = False, complain: Callable[[str], None] = _to_stderr) -> Iterator[None]:
    """Lets through what typer handles itself, turns everything else into one clean message and an exit code.

    `complain`: prints a message, which names no level.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, TyperException):
        raise
    except BrokenPipeError:
        _silence_stdout()
        raise typer.Exit(exits.ERROR) from None
    except RebalancerError as error:
        _show_traceback(debug)
        for text in error.complaints if isinstance(error, SettingsError) else [str(error)]:
            complain(text)
        raise typer.Exit(exits.SETTINGS if isinstance(error, SettingsError) else exits.ERROR) from error
    except OSError as error:
        _show_traceback(debug)
        complain(_sentence(error))
        raise typer.Exit(exits.ERROR) from error
    except Exception as error:
        _show_traceback(debug)
        complain(_unexpected(error))
        raise typer.Exit(exits.ERROR) from error


def _unexpected(error: Exception) -> str:
    """Spark is an optional part of the installation; everything else that nobody foresaw is our fault."""
    if isinstance(error, ModuleNotFoundError) and error.name in _SPARK:
        return f"{error.name} is not installed, the streaming job needs it: pip install 'pulsar-rebalancer[spark]'"
    return (
        f"this is a bug, please report it with the command you ran: {type(error).__name__}: {error} "
        "(REBALANCER_DEBUG=1 shows where it happened)"
    )


def _sentence(error: OSError) -> str:
    """`path: reason`, the way people know it from other tools."""
    if error.filename is None:
        return str(error)
    return f"{error.filename}: {error.strerror or error}"


def _show_traceback(debug: bool) -> None:
    if debug or os.environ.get("REBALANCER_DEBUG", "") not in ("", "0"):
        traceback.print_exc()


def _silence_stdout() -> None:
    """The reader went away: point standard output at nothing, or the interpreter complains once more while it shuts down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

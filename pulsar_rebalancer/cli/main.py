"""Entry point of `rebalancer`: global options and the lazily loaded commands."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from pulsar_rebalancer.cli.errors import code_of, leave
from pulsar_rebalancer.cli.lazy import LazyGroup

app = typer.Typer(
    cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True
)


def _version(wanted: bool) -> None:
    if wanted:
        from strategies.settings import VERSION

        typer.echo(f"rebalancer {VERSION}")
        raise typer.Exit()


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Print a stack trace for errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Moves bundles between Pulsar brokers so that no broker is overloaded while others are idle.

    Data goes to standard output, progress to standard error. Exit codes: 0 fine, 1 error, 2 usage
    or settings, 3 imbalance found, 5 decisions differ, 130 interrupted, 143 ended by
    SIGTERM before it was done.
    """


def main() -> None:
    """Runs the command line and exits. Characters that a terminal cannot show are escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="rebalancer")
    except SystemExit as end:
        leave(code_of(end))


if __name__ == "__main__":
    main()

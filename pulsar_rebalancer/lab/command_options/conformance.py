"""`rebalancer conformance`: compare our decisions with those of Pulsar's own classes."""

from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import options

app = typer.Typer(rich_markup_mode=None)


@app.command("conformance")
def conformance(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Decision vectors (.jsonl or .jsonl.gz).", show_default=False
        ),
    ] = None,
    *,
    pulsar: Annotated[
        str | None,
        typer.Option(
            "--pulsar",
            metavar="VERSION",
            help="Compare the rules of this Pulsar release with the answers; by default those of "
            "the release that gave the answers.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
    first: Annotated[
        int, typer.Option("--first", metavar="K", min=0, help="Show the first K differences.")
    ] = 0,
    listed: Annotated[
        bool,
        typer.Option(
            "--list", help="Also list every case with its result; without FILE, list the suites."
        ),
    ] = False,
) -> None:
    """Compare decisions with those of Pulsar's own classes: selection, order and state exactly,
    doubles bit for bit.

    Exit code 5 if a case differs, 2 if the file cannot be compared.
    """
    from pulsar_rebalancer.lab.command_runs.conformance import list_suites, run

    if file is None and not listed:
        raise typer.BadParameter(
            "name a file with decision vectors, or use --list for the suites", param_hint="FILE"
        )
    if file is None:
        raise typer.Exit(list_suites(as_json=as_json))
    release = None if pulsar is None else options.named_release(pulsar, "--pulsar")
    raise typer.Exit(run(file, release, as_json=as_json, first=first, listed=listed))

"""`rebalancer shadow`: compares the moves of Pulsar's own shedder with our decisions."""

from typing import Annotated

import typer

from pulsar_rebalancer.cli import options

_Within = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Maximum time between a move and a command for the same bundle that are matched.",
    ),
]


def shadow(
    recording: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECORDING]",
            help="A .jsonl, .jsonl.gz or .jsonl.zst file; without one, the topics of the settings.",
        ),
    ] = None,
    *,
    within: _Within = 600.0,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only records after this time: 2h before the newest record, or a UTC time.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Only records before this time: 30m or 2026-11-20T23:51."
        ),
    ] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Compare our decisions with the moves of Pulsar's own shedder. Changes nothing.

    Run `collect` and `run` on a cluster whose built-in shedder is enabled, without executor; this
    command reads the topics of telemetry, commands and rounds. For a recording, decisions are
    computed with these settings. Moves are detected as changes of ownership.
    """
    from pulsar_rebalancer.lab.command_runs.shadow import compare_moves

    compare_moves(
        recording, options.settings(config, overrides), within, (since, until), as_json=as_json
    )

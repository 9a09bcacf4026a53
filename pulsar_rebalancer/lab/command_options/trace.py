"""`rebalancer trace`: extracts the load of a recording as a file for a scenario."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options

_Cluster = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Cluster, if the recording contains several."),
]


def trace(
    recording: html_and_recording_options.Recording,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="The trace: .csv, in the folder of the scenario.")
    ],
    *,
    interval: Annotated[
        float,
        typer.Option(min=1, max=86_400, metavar="SECONDS", help="Interval of one figure."),
    ] = 60,
    per: Annotated[
        Literal["cluster", "namespace"],
        typer.Option(help="One figure for all traffic, or one for each namespace."),
    ] = "cluster",
    cluster: _Cluster = None,
    force: options.Force = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Extract a trace of load from a recording, and print the part of a scenario that uses it.

    The trace contains the traffic that brokers received, in MiB/s; message sizes, reads per
    message, topics and bundles are printed. Add machines and brokers to it, and `rebalancer
    simulate` runs a modelled cluster under the recorded load.
    """
    from pulsar_rebalancer.lab.command_runs.trace import extract

    extract(
        recording,
        target,
        interval=interval,
        per=per,
        cluster=cluster,
        force=force,
        config=config,
        overrides=overrides,
        as_json=as_json,
    )

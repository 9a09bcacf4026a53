"""`rebalancer demo`: balances a simulated cluster on this machine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options

_Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Strategy, by its name in docs/STRATEGIES.md; default steady."
    ),
]
_Mode = Annotated[
    Literal["fixed", "parity"] | None,
    typer.Option(
        help="As Pulsar's class (parity), or with known defects repaired (fixed, the default)."
    ),
]
_Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="Keep the files of an earlier demo and write new ones beside them."
    ),
]
_Kafka = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Use new topics on this Kafka cluster instead of folders."
    ),
]


def demo(
    *,
    strategy: _Strategy = None,
    mode: _Mode = None,
    overrides: options.Overrides = None,
    rounds: Annotated[
        int, typer.Option(min=2, max=1000, metavar="N", help="Maximum number of rounds.")
    ] = 20,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the simulated cluster.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for all files, instead of ./rebalancer-demo."),
    ] = None,
    keep: _Keep = False,
    kafka: _Kafka = None,
    engine: Annotated[
        Literal["spark", "plain"],
        typer.Option(help="The Spark job, or the same decisions in a plain loop (no Java)."),
    ] = "spark",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the report to this file.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Balance a simulated cluster on this machine, without servers.

    Simulated brokers report their load, the Spark job decides, a simulated executor moves bundles,
    and the next reports show the effect. Exit code 0: the last round reached the strategy's goal;
    3: it did not, or still waits for samples.
    """
    from pulsar_rebalancer.lab.demo.plan import plan_of
    from pulsar_rebalancer.lab.demo.run import run

    html_and_recording_options.check_target(html)
    flags = [*(overrides or ()), *options.flags(shedding__strategy=strategy, shedding__mode=mode)]
    run(plan_of(flags, rounds, seed, engine, out=out, keep=keep, kafka=kafka), html, as_json)

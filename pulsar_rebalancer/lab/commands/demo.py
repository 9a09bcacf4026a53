"""`rebalancer demo`: balances a simulated cluster on this machine."""

import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.lab.demo.installation import run_demo
from pulsar_rebalancer.lab.demo.plan import (
    TOPICS,
    DemoPlan,
    OnKafka,
    prepare_folder,
    write_settings,
)
from pulsar_rebalancer.lab.demo.result import write_demo_report
from pulsar_rebalancer.lab.demo.screen import open_screen
from pulsar_rebalancer.lab.goal import goal_of
from pulsar_rebalancer.lab.report.target import can_write, check_target
from pulsar_rebalancer.settings.load import Settings, load

#: Settings that have a line of their own in the demo's output.
_NAMED = ("shedding.strategy", "shedding.mode")
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

    check_target(html)
    named = options.flags(shedding__strategy=strategy, shedding__mode=mode)
    asked = load(flags=[*(overrides or ()), *named])
    _run(_plan(asked, rounds, seed, engine, out=out, keep=keep, kafka=kafka), html, as_json)


def _plan(
    asked: Settings,
    rounds: int,
    seed: int,
    engine: Literal["spark", "plain"],
    *,
    out: Path | None,
    keep: bool,
    kafka: str | None,
) -> DemoPlan:

    chosen = {
        entry.leaf.path: entry.value
        for entry in asked.entries
        if entry.kind != "default" and entry.leaf.path not in _NAMED
    }
    folder = prepare_folder(out, keep, TOPICS if kafka is None else ())
    plan = DemoPlan(asked.engine.strategy, asked.engine.mode, rounds, seed, engine, folder, chosen)
    if kafka is None:
        return plan
    prefix = f"rebalancer-demo-{time.time_ns() // 10**6:x}"
    return replace(plan, kafka=OnKafka(kafka, prefix, asked.connections.kafka))


def _run(plan: DemoPlan, html: Path | None, as_json: bool) -> NoReturn:
    """Runs the demo, and prints and writes its result. Raises typer.Exit."""

    write_settings(plan)
    settings = load(plan.settings_file)
    goal = goal_of(settings.engine)
    try:
        with open_screen(plan, goal, quiet=as_json) as screen:
            result = run_demo(plan, settings.engine, goal, screen)
    except KeyboardInterrupt:
        console.progress(f"Stopped; the results so far are in {plan.folder}")
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    if can_write() or html is not None:
        write_demo_report([plan.report, *([] if html is None else [html])], result, settings)
    if as_json:
        console.print_json("demo", 1, result.as_json())
    else:
        screen.end(result, _program())
    raise typer.Exit(exit_codes.OK if result.balanced else exit_codes.IMBALANCED)


def _program() -> str:
    """How to call `rebalancer` here: its name, or its path if it is not on PATH."""
    return (
        "rebalancer"
        if shutil.which("rebalancer")
        else os.path.relpath(Path(sys.executable).with_name("rebalancer"))
    )

"""Runs the demo, and prints and writes its result."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import typer

from pulsar_rebalancer.cli import console, exit_codes
from pulsar_rebalancer.lab.demo.installation import run_demo
from pulsar_rebalancer.lab.demo.plan import (
    DemoPlan,
    write_settings,
)
from pulsar_rebalancer.lab.demo.result import write_demo_report
from pulsar_rebalancer.lab.demo.screen import open_screen
from pulsar_rebalancer.lab.goal import goal_of
from pulsar_rebalancer.settings.merge_sources import load


def run(plan: DemoPlan, html: Path | None, as_json: bool) -> NoReturn:
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
    write_demo_report(result, settings, html)
    if as_json:
        console.print_json("demo", 1, result.as_json())
    else:
        screen.end(result, _program())
    raise typer.Exit(result.exit_code)


def _program() -> str:
    """How to call `rebalancer` here: its name, or its path if it is not on PATH."""
    return (
        "rebalancer"
        if shutil.which("rebalancer")
        else os.path.relpath(Path(sys.executable).with_name("rebalancer"))
    )

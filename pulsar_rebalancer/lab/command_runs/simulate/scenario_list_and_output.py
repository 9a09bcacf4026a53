"""What `rebalancer simulate` prints: the list of scenarios, progress, and results as text, JSON and
page.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab import requested_runs
from pulsar_rebalancer.lab.command_runs.simulate import (
    published,
    ratings,
    tables,
)
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios


def show(made: Sequence[requested_runs.Made], as_json: bool) -> None:
    """Prints the figures of the runs and their ratings."""
    found = ratings.rated(made)
    if as_json:
        rated = {} if found is None else {"ratings": ratings.as_json(found)}
        console.print_json("simulate", 1, {**tables.as_json(made), **rated})
        return
    console.show(*tables.by_scenario(made), tables.LEGEND, *tables.operations(made))
    if found is not None:
        console.show(ratings.table(found), ratings.legend(found), ratings.verdict(found))


def show_published(made: Sequence[requested_runs.Made], as_json: bool) -> None:
    """Prints the comparison with published figures."""
    compared = published.compare(made)
    if as_json:
        console.print_json(
            "simulate-published", 1, {**published.as_json(compared), **tables.as_json(made)}
        )
    else:
        console.show(published.table(compared), published.verdict(compared))


def list_scenarios(as_json: bool) -> None:
    """Prints the built-in scenarios."""
    named = [read_scenarios.load(name) for name in read_scenarios.names()]
    if as_json:
        found = [
            {
                "name": one.name,
                "title": one.scenario.title,
                "card": one.scenario.card,
                "story": one.story,
            }
            for one in named
        ]
        console.print_json("scenarios", 1, {"scenarios": found})
    else:
        console.show(
            console.Sheet(
                [("name", "left"), ("card", "left"), ("length", "right"), ("story", "left")],
                [
                    [one.name, one.scenario.card or "", _length(one.scenario.minutes), one.story]
                    for one in named
                ],
            )
        )


def _length(minutes: int) -> str:
    return (
        f"{minutes} min"
        if minutes < 600
        else f"{minutes / 60:g} h"
        if minutes < 4320
        else f"{minutes / 1440:g} d"
    )


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal, otherwise one line."""
    stderr = Console(file=sys.stderr)
    if not stderr.is_terminal and total > 1:
        console.progress(f"{total:,} runs")
    with Progress(console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("simulating", total=total)
        yield lambda: bar.advance(task)

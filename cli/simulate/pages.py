"""Runs as pages with pictures: one for each scenario, strategies side by side, the first seed of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cli.report.page import write_report
from cli.simulate.runs import Made
from cli.simulate.tables import grouped
from simulation.scenarios import shelf
from simulation.timeline import Timeline


def write(made: Sequence[Made], file: Path) -> list[Path]:
    """Writes `file`, or with several scenarios one file each, the scenario's name before the ending; returns what was written."""
    kept: dict[str, list[tuple[Made, Timeline]]] = {}
    for (scenario, _), group in grouped(made).items():
        kept.setdefault(scenario, []).extend((one, one.timeline) for one in group if one.timeline is not None)
    written = []
    for scenario, runs in kept.items():
        path = file if len(kept) == 1 else file.with_name(f"{file.stem}-{scenario}{file.suffix or '.html'}")
        _write_one(scenario, runs, path)
        written.append(path)
    return written


def _write_one(scenario: str, runs: Sequence[tuple[Made, Timeline]], path: Path) -> None:
    named = shelf.load(runs[0][0].wish.scenario)
    title = named.scenario.title
    lines = [timeline if len(runs) == 1 else replace(timeline, title=one.label) for one, timeline in runs]
    write_report(path, lines, title=title, made_by=f"rebalancer simulate {scenario}")

"""`rebalancer backtest`: its runs, and their result as text, JSON and page."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.lab.backtest.run import (
    BacktestJob,
    BacktestResult,
    Loop,
    check_rounds,
    run_all,
    whole,
)
from pulsar_rebalancer.lab.backtest.what_if import WhatIf, changed
from pulsar_rebalancer.lab.command_runs.settings_in_recorded_release import in_recorded_release
from pulsar_rebalancer.lab.recorded_release import columnar
from pulsar_rebalancer.lab.report.chart_data import comparison
from pulsar_rebalancer.lab.report.page import render, write_page
from pulsar_rebalancer.lab.report.timeline_summary import FORESIGHT, Summary
from pulsar_rebalancer.lab.simulation.timeline import Move
from pulsar_rebalancer.lab.tune.search import short
from pulsar_rebalancer.settings.merge_sources import Settings
from strategies.errors import SettingsError
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.ordered_sum import ordered_sum

#: What the loops of a back-test mean, for the reader.
LOOPS = {
    "closed": "closed loop: the recorded load of every bundle follows "
    "its moves, as if equal traffic "
    "cost all brokers the same",
    "open": "open loop: recorded reports do not react to moves, so this shows when each would have "
    "acted, not the result",
}
_SHOWN = ("ts", "bundle", "source", "destination", "kind", "code", "reason")


def backtest_all(
    recording: Path,
    strategies: Sequence[str],
    variants: Sequence[str],
    loop: Loop,
    what_if: WhatIf,
    *,
    config: Path | None,
    overrides: list[str] | None,
    html: Path | None,
    fail_on_imbalance: bool,
    as_json: bool,
) -> None:
    """Runs each strategy with the settings and with each variant of them, and prints the result.
    Raises typer.Exit.
    """
    if loop == "open" and what_if != WhatIf():
        raise SettingsError(
            ["--loop open: other brokers, traffic or policies change loads; use --loop closed"]
        )
    wanted = options.settings(config, overrides)
    tries = _tries(
        strategies or [wanted.engine.strategy], [[], *map(_parts, variants)], (config, overrides)
    )
    wanted = in_recorded_release(wanted, recording)
    tries = [(title, _alike(settings, wanted)) for title, settings in tries]
    with (
        columnar(recording, wanted.connections.wire, console.progress) as path,
        changed(path, what_if, wanted) as (path, unloads, idle),
    ):
        jobs = [BacktestJob(path, title, settings, loop, idle=idle) for title, settings in tries]
        answers = run_all(jobs, console.progress, whole)
    asked = {"recording": str(recording), "loop": loop, "what_if": what_if.sentences()}
    _show(asked, unloads, jobs, answers, as_json)
    check_rounds(recording, answers)
    if html is not None:
        _write_html(html, recording, what_if, answers)
    if fail_on_imbalance and any(
        line.rounds and not line.reached[-1] for answer in answers for line in answer.timelines
    ):
        raise typer.Exit(exit_codes.IMBALANCED)


def _alike(settings: Settings, resolved: Settings) -> Settings:
    """The settings with the Pulsar release of resolved ones, unless they name one."""
    release = resolved.engine.pulsar_version
    return settings.in_release(release) if settings.release_is_open else settings


def _parts(variant: str) -> list[str]:
    parts = [part.strip() for part in variant.split(";") if part.strip()]
    if not parts:
        raise SettingsError(
            ["--variant: names no setting; write it as path=value, several with ; between them"]
        )
    return parts


def _tries(
    strategies: Sequence[str],
    variants: Sequence[Sequence[str]],
    base: tuple[Path | None, list[str] | None],
) -> list[tuple[str, Settings]]:
    """Title and settings of every run, checked before the recording is read."""
    config, overrides = base
    return [
        (
            ", ".join([name, *map(short, changes)]),
            options.settings(config, overrides, *options.flags(shedding__strategy=name), *changes),
        )
        for name in dict.fromkeys(strategies)
        for changes in variants
    ]


def _show(
    asked: dict[str, Any],
    unloads: Sequence[dict[str, str | None]],
    jobs: Sequence[BacktestJob],
    answers: Sequence[BacktestResult],
    as_json: bool,
) -> None:
    summaries = [Summary(line) for answer in answers for line in answer.timelines]
    if as_json:
        runs = [run_as_json(job, answer) for job, answer in zip(jobs, answers, strict=True)]
        console.print_json(
            "backtest",
            1,
            asked | {"meaning": LOOPS[asked["loop"]], "unloads": unloads, "runs": runs},
        )
        return
    if not any(summary.run.rounds for summary in summaries):
        return
    compared = comparison(summaries)
    clusters = {summary.run.cluster for summary in summaries}
    heads = compared["heads"] if len(clusters) == 1 else ["cluster", *compared["heads"]]
    rows = compared["rows"]
    if len(clusters) > 1:
        rows = [[summary.run.cluster, *row] for summary, row in zip(summaries, rows, strict=True)]
    texts = len(heads) - len(compared["heads"]) + 1
    console.show(
        console.Sheet(
            [(head, "left" if at < texts else "right") for at, head in enumerate(heads)], rows
        ),
        f"again: bundles that moved more than once; {FORESIGHT}",
        LOOPS[asked["loop"]],
        *([f"what if: {'; '.join(asked['what_if'])}"] if asked["what_if"] else []),
        *(_unload_parts(unloads) if unloads else ()),
    )
    if rejected := answers[0].rejected:
        console.say(f"{rejected} records could not be used; `rebalancer replay` shows why")


def _unload_parts(unloads: Sequence[dict[str, str | None]]) -> list[console.Sheet | str]:
    """What the posted policies unload at once, as a sentence and a table."""
    stay = ordered_sum(one["destination"] == one["source"] for one in unloads)
    heads: list[tuple[str, console.Side]] = [(head, "left") for head in unloads[0]]
    return [
        "",
        f"Pulsar unloads {counted(len(unloads), 'bundle')} at once when the policies are posted; "
        f"{stay} of them come back to their broker:",
        console.Sheet(heads, [[cell or "none" for cell in one.values()] for one in unloads]),
    ]


def run_as_json(job: BacktestJob, answer: BacktestResult) -> dict[str, Any]:
    """One run, with figures and moves of each cluster."""
    return {
        "title": job.title,
        "strategy": job.settings.engine.strategy,
        "mode": job.settings.engine.mode,
        "records": answer.records,
        "rejected": answer.rejected,
        "clusters": [
            {"cluster": line.cluster, **Summary(line).as_json(), "moves": _moves(line.moves)}
            for line in answer.timelines
        ],
    }


def _moves(moves: Sequence[Move]) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(move).items() if key in _SHOWN} for move in moves]


def _write_html(
    html: Path, recording: Path, what_if: WhatIf, answers: Sequence[BacktestResult]
) -> None:
    write_page(
        html,
        render(
            [line for answer in answers for line in answer.timelines],
            title=", ".join([f"Back-test of {recording.name}", *what_if.sentences()]),
            made_by=f"rebalancer backtest {recording.name}",
        ),
    )
    console.progress(f"written: {html}")

"""`rebalancer upgrade-preview`: its runs, and their result as text, JSON and page."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.lab.backtest.run import (
    BacktestJob,
    BacktestResult,
    check_rounds,
    run_all,
    whole,
)
from pulsar_rebalancer.lab.command_runs.backtest import LOOPS, run_as_json
from pulsar_rebalancer.lab.recorded_release import columnar, is_of_extensible, recorded_release
from pulsar_rebalancer.lab.report.page import write_page
from pulsar_rebalancer.lab.upgrade_preview.planned_runs import PreviewPlan, plan_of
from pulsar_rebalancer.lab.upgrade_preview.upgrade_effects import (
    NOT_SHOWN,
    RunEffects,
    clock,
    details,
    effect_rows,
    headline,
    key_rows,
    preview_page,
    steps,
)
from pulsar_rebalancer.settings.broker_conf.converted_conf_text import upgrade_as_json
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade
from strategies.errors import SinkError
from strategies.java.pulsar_versions_and_defaults import PulsarRelease

#: Maximum number of moves that the terminal lists; JSON and page have all.
_LISTED = 5


def preview(
    recording: Path,
    releases: tuple[PulsarRelease, PulsarRelease],
    broker_conf: Path | None,
    *,
    overrides: Sequence[str],
    html: Path | None,
    as_json: bool,
) -> None:
    """Back-tests the recording in both releases, and prints what would change."""
    wire = options.settings(None, None).connections.wire
    first = plan_of(releases, broker_conf, overrides, extensible=False)  # complains at once
    console.warn(first.warnings)
    _warn_of_release(recording, releases[0])
    with columnar(recording, wire, console.progress) as path:
        plan = plan_of(releases, broker_conf, overrides, extensible=is_of_extensible(path))
        jobs = [BacktestJob(path, run.title, run.settings, "closed") for run in plan.runs]
        answers = run_all(jobs, console.progress, whole)
    check_rounds(recording, answers)
    clusters = _by_cluster(recording, answers)
    if as_json:
        made = [*zip(jobs, answers, strict=True)]
        _print_json(recording, broker_conf, plan, made, clusters)
    else:
        _show(plan, clusters)
    if html is not None:
        _write_html(html, recording, plan, clusters)


def _warn_of_release(recording: Path, before: PulsarRelease) -> None:
    found = recorded_release(recording)
    if found.oldest is not None and found.release != before:
        console.warn([f"--from is {before}, but in the recording {found.why}"])
    console.warn([f"in the recording, {remark}" for remark in found.remarks])


def _by_cluster(recording: Path, answers: Sequence[BacktestResult]) -> list[list[RunEffects]]:
    """The runs of each cluster with load in its rounds, by name. Raises SinkError if there is
    none.
    """
    by_run = [{line.cluster: line for line in one.timelines} for one in answers]
    names = [name for name in by_run[0] if all(one[name].rounds for one in by_run)]
    named = "{cluster}, {title}" if len(names) > 1 else "{title}"
    clusters = [
        [
            RunEffects(replace(line, title=named.format(cluster=name, title=line.title)))
            for line in (one[name] for one in by_run)
        ]
        for name in names
    ]
    known = [one for one in clusters if not isnan(one[0].mean_spread)]
    if not known:
        raise SinkError(
            f"{recording}: no broker has load in any round; record the brokers' load reports too."
        )
    return known


def _show(plan: PreviewPlan, clusters: Sequence[Sequence[RunEffects]]) -> None:
    upgrade = plan.upgrade
    for effects in clusters:
        name = f"{effects[0].run.cluster}: " if len(clusters) > 1 else ""
        console.show(
            name + headline(upgrade, plan.settings, effects[0], effects[1]),
            "",
            details(upgrade, effects[0], effects[1]),
            "",
            _table(effects),
        )
        _show_moves(upgrade, effects[1])
    console.show("", *plan.remarks, *(f"{one}." for one in upgrade.remarks))
    _show_keys(upgrade)
    _show_steps(upgrade)
    console.show("", NOT_SHOWN)


def _table(effects: Sequence[RunEffects]) -> console.Sheet:
    heads: list[tuple[str, console.Side]] = [("", "left")]
    heads += [(one.run.title, "right") for one in effects]
    return console.Sheet(heads, effect_rows(effects))


def _show_moves(upgrade: Upgrade, after: RunEffects) -> None:
    """The first moves after the upgrade."""
    moves = after.moves
    if not moves:
        return
    more = f", the first {_LISTED} of {len(moves)}" if len(moves) > _LISTED else ""
    console.say(
        "", f"Moves with Pulsar {upgrade.after}{more} (all with their reasons: --json, --html):"
    )
    for move in moves[:_LISTED]:
        where = f"{move.source} -> {move.destination}"
        ts = clock(int(after.run.times_ms[move.round]))
        console.say(f"  {ts}  {move.bundle}  {where}")


def _show_keys(upgrade: Upgrade) -> None:
    """A list, because Pulsar's keys are too long for a table in a terminal."""
    if not upgrade.omitted:
        console.say("", "broker.conf sets every key whose default changes: all keep their values.")
        return
    console.say(
        "",
        f"Defaults that change from Pulsar {upgrade.before} to {upgrade.after}, for keys that "
        "broker.conf leaves out:",
    )
    for key, before, after, effect in key_rows(upgrade):
        console.say(f"  {key}: {before} -> {after}", f"      {effect}")


def _show_steps(upgrade: Upgrade) -> None:
    """Lines to copy, so they are neither wrapped nor indented."""
    for step in steps(upgrade):
        console.say("", step.text)
        if step.command:
            console.say(*step.command.split("\n"))


def _print_json(
    recording: Path,
    conf: Path | None,
    plan: PreviewPlan,
    made: Sequence[tuple[BacktestJob, BacktestResult]],
    shown: Sequence[Sequence[RunEffects]],
) -> None:
    upgrade = plan.upgrade
    clusters = [
        {
            "cluster": effects[0].run.cluster,
            "text": headline(upgrade, plan.settings, effects[0], effects[1]),
            "detail": details(upgrade, effects[0], effects[1]),
        }
        for effects in shown
    ]
    runs = [_run_as_json(place, plan, job, answer) for place, (job, answer) in enumerate(made)]
    body = {
        "recording": str(recording),
        "broker_conf": None if conf is None else str(conf),
        "meaning": LOOPS["closed"],
        "clusters": clusters,
        "runs": runs,
        "upgrade": upgrade_as_json(upgrade),
        "notes": [*plan.remarks, NOT_SHOWN],
    }
    console.print_json("upgrade-preview", 1, body)


def _run_as_json(
    place: int, plan: PreviewPlan, job: BacktestJob, answer: BacktestResult
) -> dict[str, Any]:
    made, run = run_as_json(job, answer), plan.runs[place]
    clusters = [
        {**figures, "effects": RunEffects(line).effects_as_json()}
        for figures, line in zip(made["clusters"], answer.timelines, strict=True)
    ]
    return {"of": run.of, "version": run.release, **made, "clusters": clusters}


def _write_html(
    html: Path, recording: Path, plan: PreviewPlan, clusters: Sequence[Sequence[RunEffects]]
) -> None:
    upgrade = plan.upgrade
    page = preview_page(
        clusters,
        plan,
        title=f"Upgrade of Pulsar {upgrade.before} to {upgrade.after}: {recording.name}",
        made_by=f"rebalancer upgrade-preview {recording.name} --from {upgrade.before} "
        f"--to {upgrade.after}",
    )
    write_page(html, page)
    console.progress(f"written: {html}")

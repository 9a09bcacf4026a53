"""`rebalancer tune`: the search on a recording, and its result as text, JSON and page."""

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.decisions.skip_and_certificate_texts import number
from pulsar_rebalancer.lab.backtest.run import run_all
from pulsar_rebalancer.lab.recorded_release import columnar
from pulsar_rebalancer.lab.report.page import render, write_page
from pulsar_rebalancer.lab.report.timeline_summary import duration, points
from pulsar_rebalancer.lab.report.verdict import FEW_ROUNDS, NextStep, ReportVerdict
from pulsar_rebalancer.lab.simulation.metrics.figures import finite
from pulsar_rebalancer.lab.tune.search import Cost, SearchResult, Trial, drawn, search
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.recordings.columnar_reading import read_blocks
from strategies.errors import SinkError


def tune_on(
    recording: Path,
    current: Settings,
    settings_with: Callable[..., Settings],
    *,
    trials: int,
    training: float,
    seed: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """Searches, and prints the result. `settings_with`: the settings of the command line with
    further assignments.
    """
    release = current.engine.pulsar_version
    wanted = [_different(changes, current) for changes in drawn(current.engine.entry, trials, seed)]
    sets = [(changes, settings_with(*changes).in_release(release)) for changes in wanted if changes]
    with columnar(recording, current.connections.wire, console.progress) as path:
        found = search(
            path,
            current,
            sets,
            _split(path, training, recording),
            lambda jobs, keep: run_all(jobs, console.progress, keep),
        )
    if as_json:
        console.print_json(
            "tune",
            1,
            {"recording": str(recording), "strategy": current.engine.strategy, **_as_json(found)},
        )
    else:
        _show(found)
    if html is not None:
        _write_html(html, recording, found)


def _different(changes: tuple[str, ...], current: Settings) -> tuple[str, ...]:
    """The changes that differ from the current settings."""
    parts = [(change, *change.split("=")) for change in changes]
    return tuple(
        change for change, path, value in parts if float(current.value(path)) != float(value)
    )


def _split(path: Path, training: float, recording: Path) -> int:
    """Start of the test part, ms. `path`: the columnar form of the recording."""
    times = [
        (int(block.ts[block.ts > 0].min()), int(block.ts.max()))
        for block in read_blocks(path)
        if (block.ts > 0).any()
    ]
    if not times:
        raise SinkError(
            f"{recording} contains no record with a time, so there is nothing to tune on; "
            "name a recording of load reports."
        )
    begin, end = min(low for low, _ in times), max(high for _, high in times)
    return begin + round(training * (end - begin))


def sentence(found: SearchResult) -> str:
    """The result as a sentence: whether something is better than the current settings, by how much,
    and on how much data.
    """
    now, best = found.current.test, found.best
    if now is None or not now.rounds:
        return (
            "The test part contains no round: record for longer, or use a smaller --training part."
        )
    data = f"{number(now.rounds, 'test round')} ({duration(round(now.days * 86_400_000))})"
    doubt = (
        ""
        if now.rounds >= FEW_ROUNDS
        else f" That is too little to rely on: record at least {FEW_ROUNDS} rounds for the test "
        "part."
    )
    if best is None or best.test is None:
        return (
            f"Keep the current settings: none of {number(found.tried, 'set')} tried was better on "
            f"both parts, judged on {data}.{doubt}"
        )
    moves = f"{best.test.moves:.1f} moves a day instead of {now.moves:.1f}"
    change = f"a mean spread of {points(best.test.spread)} instead of {now.spread:.1f}, {moves}"
    return (
        f"Better than the current settings on {data} that the search did not use: {change}, with "
        f"{best.title}.{doubt}"
    )


def _show(found: SearchResult) -> None:
    heads = ["settings", "training spread", "moves a day", "test spread", "moves a day", ""]
    rows = [
        [one.title, *_cells(one.training), *_cells(one.test), "best" if one is found.best else ""]
        for one in [found.current, *found.front]
    ]
    columns: list[Any] = [
        (head, "left" if at in (0, 5) else "right") for at, head in enumerate(heads)
    ]
    console.show(
        console.Sheet(columns, rows),
        "spread: mean of highest minus lowest usage, in points; lists the sets that none beats",
    )
    console.say(sentence(found))
    if found.best is not None:
        console.say(f"Try it: {' '.join(f'--set {change}' for change in found.best.changes)}")


def _cells(cost: Cost | None) -> list[str]:
    known = cost is not None and isfinite(cost.spread)
    return [f"{cost.spread:.1f}", f"{cost.moves:.1f}"] if known and cost is not None else ["–", "–"]


def _as_json(found: SearchResult) -> dict[str, Any]:
    return {
        "tried": found.tried,
        "split_ms": found.split_ms,
        "current": _trial(found.current),
        "front": [_trial(one) for one in found.front],
        "best": found.best and _trial(found.best),
        "text": sentence(found),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "changes": list(trial.changes),
        "training": _cost(trial.training),
        "test": trial.test and _cost(trial.test),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "spread_mean_points": finite(cost.spread),
        "moves_a_day": finite(cost.moves),
        "rounds": cost.rounds,
        "days": cost.days,
    }


def _write_html(html: Path, recording: Path, found: SearchResult) -> None:
    shown = [found.current, *([found.best] if found.best is not None else found.front[:3])]
    head, _, rest = sentence(found).partition(". ")
    detail = rest or "Both parts of the recording agree." if found.best is not None else rest
    if found.best is not None:
        step = NextStep("Try them:", " ".join(f"--set {change}" for change in found.best.changes))
    else:
        step = NextStep("Try more sets (--trials) or another strategy (--strategy).")
    longer = NextStep(
        "Record for longer, then ask again.", "rebalancer record week.parquet --follow"
    )
    enough = found.current.test is not None and found.current.test.rounds >= FEW_ROUNDS
    verdict = ReportVerdict(
        "good" if enough else "unsure",
        f"{head.removesuffix('.')}.",
        detail,
        (step,) if enough else (longer, step),
    )
    write_page(
        html,
        render(
            [line for one in shown for line in one.lines],
            title=f"Tuning on {recording.name}",
            made_by=f"rebalancer tune {recording.name}",
            verdict=verdict,
        ),
    )
    console.progress(f"written: {html}")

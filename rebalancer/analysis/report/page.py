"""Writes the page: one file with its style, its script, the plotting library and the figures in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from rebalancer.analysis.report.figures import comparison, run_figures
from rebalancer.analysis.report.summary import Summary
from rebalancer.analysis.report.target import NO_PLOTLY
from rebalancer.analysis.report.verdict import NextStep, ReportVerdict, judge_runs
from rebalancer.simulation.timeline import Timeline
from strategies.errors import SettingsError

_PLACE = re.compile(r"\{\{([a-z]+)\}\}")


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of the caller's. `best`: rows to mark, for every column; `names`: so many columns at the left are text."""

    title: str
    hint: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: Sequence[Sequence[int]]
    names: int = 1


@dataclass(frozen=True, slots=True)
class Several:
    """Runs of more than one scenario: `scenes` has the scenario of each; `sheets` stand where runs of one would be compared."""

    scenes: Sequence[str]
    sheets: Sequence[PageTable]


def write_page(path: Path, page: str) -> None:
    """A page that was rendered; complete or not at all. Creates the folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def render(
    runs: Sequence[Timeline],
    *,
    title: str,
    made_by: str,
    steps: Sequence[NextStep] = (),
    verdict: ReportVerdict | None = None,
    several: Several | None = None,
) -> str:
    """The page about one run, or about several side by side, as text; the same runs give the same bytes.

    `made_by`: the command line it came from, for the foot of the page; `steps`: what to do next, where the caller knows; `verdict`: instead
    of the one that follows from the runs. Raises SettingsError where plotly is missing.
    """
    summaries = [Summary(run) for run in runs]
    verdict = verdict or judge_runs(summaries, steps)
    scenes = [""] * len(runs) if several is None else several.scenes
    data = {
        "title": title,
        "made_by": made_by,
        "verdict": asdict(verdict),
        "runs": [{**run_figures(run, len(runs)), "scene": scene} for run, scene in zip(summaries, scenes, strict=True)],
        "comparison": comparison(summaries) if len(summaries) > 1 and several is None else None,
        "tables": [] if several is None else [asdict(sheet) for sheet in several.sheets],
    }
    return _filled(
        _own("page.html"),
        {
            "title": escape(title),
            "headline": escape(verdict.headline),
            "style": _own("style.css"),
            "plotly": _plotly(),
            "data": _as_script(data),
            "script": _own("report.js"),
        },
    )


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """In one pass, so that nothing in a part is taken for a place."""
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _as_script(data: object) -> str:
    """JSON that cannot end the script element it stands in, whatever a broker is called."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _own(name: str) -> str:
    return files("rebalancer.analysis.report").joinpath(name).read_text("utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise SettingsError([NO_PLOTLY]) from error
    return str(get_plotlyjs()).replace("</script", "<\\/script")

"""Writes the page: one file that contains its style, its script, the plotting library and the data,
with the settings that a run's decisions depend on.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from pulsar_rebalancer.lab.report.chart_data import comparison, run_figures
from pulsar_rebalancer.lab.report.timeline_summary import Summary
from pulsar_rebalancer.lab.report.verdict import NextStep, ReportVerdict, judge_runs
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.durable_files import naming
from strategies.cluster.model import Scalar
from strategies.errors import SettingsError
from strategies.fold.engine import placement_of
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, RELEASES

#: Tables whose settings decide; of `shedding` and `placement` also the tables of what ran. Others
#: name servers and files, and a report is for anybody.
_DECIDES = (
    "round",
    "weights",
    "shedding",
    "placement",
    "filters",
    "limits",
    "splitting",
    "throttling",
    "drains",
    "rivals",
    "bulkhead",
    "capacities",
)


def shown_settings(settings: Settings) -> Mapping[str, Scalar]:
    """Dotted path → value, those that differ from the defaults first; of strategies and placements,
    only those that ran. The Pulsar release is shown if a source names it, or if it is not the
    oldest one.
    """
    ran = (f"shedding.{settings.engine.strategy}", f"placement.{placement_of(settings.engine)[0]}")
    ordered = sorted(
        (one for one in settings.entries if one.leaf.section in (*_DECIDES, *ran)),
        key=lambda one: one.kind == "default",
    )
    release = settings.engine.pulsar_version
    named = not settings.release_is_open or release != RELEASES[0]
    shown: dict[str, Scalar] = {PULSAR_VERSION: release} if named else {}
    return shown | {
        one.leaf.path: one.value
        if isinstance(one.value, bool | int | float | str)
        else str(one.value)
        for one in ordered
    }


NO_PLOTLY = "the HTML report needs plotly: pip install 'pulsar-rebalancer[report]', or omit --html"
_PLACE = re.compile(r"\{\{([a-z]+)\}\}")


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of the caller. `best`: rows to mark, per column; `names`: number of text columns at
    the left.
    """

    title: str
    hint: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: Sequence[Sequence[int]]
    names: int = 1


def can_write() -> bool:
    """Whether the plotting library is installed."""
    return find_spec("plotly") is not None


def write_page(path: Path, page: str) -> None:
    """Writes the page and creates missing folders. The previous page is replaced as a whole. Raises
    OSError, which names the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [page.encode()])


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a file; the previous one is replaced as a whole. Raises OSError, which names the
    file.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with naming(path), part.open("wb") as file:
            file.writelines(parts)
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
    scenes: Sequence[str] = (),
    costs: PageTable | None = None,
    tables: Sequence[PageTable] = (),
    sections: Sequence[Mapping[str, object]] = (),
) -> str:
    """The HTML of the page about one run, or a comparison of several; equal runs give equal bytes.

    `made_by`: the command line, for the footer; `steps`: next steps, instead of those that follow
    from the verdict; `verdict`: replaces the one that follows from the runs; `scenes`: the scenario
    of each run, if there are several: only runs of one scenario are compared; `costs`: what the
    moves have cost, behind their list; `tables`: before the comparison of runs; `sections`: the
    page without runs, as `showSections` of report.js has them. Raises SettingsError if plotly is
    missing.
    """
    summaries = [Summary(run) for run in runs]
    verdict = verdict or judge_runs(summaries, steps)
    data = {
        "title": title,
        "made_by": made_by,
        "verdict": asdict(verdict),
        "runs": [
            {**run_figures(run, len(runs)), "scene": scene}
            for run, scene in zip(summaries, scenes or [""] * len(runs), strict=True)
        ],
        "comparison": comparison(summaries) if len(summaries) > 1 and not scenes else None,
        "tables": [asdict(one) for one in tables],
        "costs": [] if costs is None else [asdict(costs)],
        "sections": sections,
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
    """Fills all placeholders in one pass, so that text like one in a part is not replaced."""
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _as_script(data: object) -> str:
    """JSON that cannot end its script element, whatever names it contains."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _own(name: str) -> str:
    return files("pulsar_rebalancer.lab.report").joinpath(name).read_text("utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise SettingsError([NO_PLOTLY]) from error
    return str(get_plotlyjs()).replace("</script", "<\\/script")

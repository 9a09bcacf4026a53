"""The page of `rebalancer advise`: what the terminal shows, with charts of usage and hours."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.advise.advice import DAY_HOURS, IN_A_ROW, Answers
from pulsar_rebalancer.lab.advise.recorded_loads import RecordedLoads
from pulsar_rebalancer.lab.report.chart_data import series
from pulsar_rebalancer.lab.report.page import render
from pulsar_rebalancer.lab.report.verdict import ReportVerdict


@dataclass(frozen=True, slots=True)
class AdviceSection:
    """A part of the advice. `commands`: lines to copy."""

    title: str
    text: str
    sheets: Sequence[console.Sheet] = ()
    commands: Sequence[str] = ()


def page_of(
    headline: tuple[str, str],
    sections: Sequence[AdviceSection],
    one: Answers,
    loads: RecordedLoads,
    *,
    name: str,
    made_by: str,
) -> str:
    """The HTML of the page. `headline`: the first sentence, and on what it is based; `name`: of the
    cluster. Raises SettingsError if plotly is missing.
    """
    charts = {
        "Brokers": _usage(loads, one["at_most"]),
        "When": {"form": "hours", "in_a_row": IN_A_ROW, **one["when"]},
    }
    return render(
        (),
        title=f"Advice for {name}",
        made_by=made_by,
        verdict=ReportVerdict("advice" if one["hours"] >= DAY_HOURS else "unsure", *headline, ()),
        sections=[asdict(part) | {"chart": charts.get(part.title)} for part in sections],
    )


def _usage(loads: RecordedLoads, at_most: float) -> Mapping[str, Any]:
    """The usage of the busiest broker at each step in percent, None where no broker reported."""
    samples = np.reshape([one for shown in loads.shown.values() for one in shown], (-1, 5))
    steps = (samples[:, 4].astype(np.int64) - loads.begins_ms) // loads.step_ms
    busiest = np.full(len(loads.traffic), np.nan)
    np.fmax.at(busiest, steps, 100 * samples[:, 2])
    return {
        "form": "usage",
        "limit": 100 * at_most,
        **series(loads.begins_ms + loads.step_ms * np.arange(len(busiest)), busiest),
    }

"""The report page of `rebalancer simulate`: charts of each run's first seed; for several scenarios,
tables of all seeds as well.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.command_runs.simulate import ratings
from pulsar_rebalancer.lab.command_runs.simulate.ratings import Rated, rated
from pulsar_rebalancer.lab.command_runs.simulate.tables import COLUMNS, LEGEND, cells
from pulsar_rebalancer.lab.report.chart_data import best_rows
from pulsar_rebalancer.lab.report.page import PageTable, render, write_page
from pulsar_rebalancer.lab.report.verdict import NextStep, ReportVerdict
from pulsar_rebalancer.lab.requested_runs import Made, grouped, median
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
from pulsar_rebalancer.lab.simulation.timeline import Timeline


def write_report(made: Sequence[Made], file: Path) -> None:
    """Writes one page: the runs of one scenario, or several scenarios with a table of all runs.
    Says where.
    """
    kept = [
        (one, one.timeline)
        for group in grouped(made).values()
        for one in group
        if one.timeline is not None
    ]
    names = list(dict.fromkeys(one.scenario for one, _ in kept))
    if len(names) == 1:
        title = read_scenarios.load(kept[0][0].request.scenario).scenario.title
        alone = len(kept) == 1
        page = render(
            [line if alone else _named(one, line) for one, line in kept],
            title=title,
            made_by=f"rebalancer simulate {names[0]}",
        )
    else:
        found = rated(made)
        page = render(
            [_named(one, line) for one, line in kept],
            title=f"{len(names)} scenarios",
            made_by=f"rebalancer simulate {' '.join(names)}",
            verdict=_verdict(made, found),
            scenes=[one.scenario for one, _ in kept],
            tables=[*([] if found is None else [_ratings(found)]), _all(made)],
        )
    write_page(file, page)
    console.progress(f"written: {file}")


def _named(one: Made, timeline: Timeline) -> Timeline:
    return replace(timeline, title=one.label)


def _ratings(found: Rated) -> PageTable:
    heads, lines = ratings.rows(found)
    best = [
        [],
        *(
            best_rows([values[name] for values in found.values.values()])
            for name in found.scenarios
        ),
    ]
    return PageTable("Ratings, lower is better", ratings.legend(found), heads, lines, best)


def _all(made: Sequence[Made]) -> PageTable:
    """A table with one line per scenario and strategy; the lowest spread of each scenario is
    marked.
    """
    groups = grouped(made)
    lines = [[scenario, label, *cells(group)] for (scenario, label), group in groups.items()]
    heads = ["scenario", "strategy", *(heading for heading, _, _ in COLUMNS)]
    best = [
        [] if head != "spread" else [row for rows in _evenest(groups).values() for row in rows]
        for head in heads
    ]
    return PageTable("All scenarios and strategies", LEGEND, heads, lines, best, names=2)


def _evenest(groups: Mapping[tuple[str, str], Sequence[Made]]) -> dict[str, list[int]]:
    """Scenario → rows of the groups that ended with the lowest spread; empty if all ended with the
    same spread.
    """
    rows: dict[str, list[int]] = {}
    spreads = [
        median([one.figures["lasting_spread"] for one in group]) for group in groups.values()
    ]
    for row, (scenario, _) in enumerate(groups):
        rows.setdefault(scenario, []).append(row)
    return {
        scenario: [mine[place] for place in best_rows([spreads[row] for row in mine])]
        for scenario, mine in rows.items()
    }


def _verdict(made: Sequence[Made], found: Rated | None) -> ReportVerdict:
    groups, labels = grouped(made), list(dict.fromkeys(one.label for one in made))
    evenest, who = _evenest(groups), [label for _, label in groups]
    steps = (
        NextStep("Choose a scenario below to see its rounds and the reason of each move."),
        NextStep(
            "Compare strategies on a recording of your cluster.",
            "rebalancer backtest RECORDING --strategy avg --strategy threshold",
        ),
    )
    if len(labels) < 2:
        return ReportVerdict(
            "compared",
            f"{labels[0]} was run in {len(evenest)} scenarios.",
            "The table has its figures for each.",
            steps,
        )
    wins = Counter(who[row] for rows in evenest.values() for row in rows)
    counts = ", ".join(f"{label} in {count}" for label, count in wins.most_common(3))
    headline = (
        f"{len(labels)} strategies in {len(evenest)} scenarios. Most even at the end: "
        f"{counts or 'none, all are equal'}."
    )
    detail = "These scenarios define no ratings." if found is None else ratings.verdict(found)
    return ReportVerdict("compared", headline, detail, steps)

"""Runs as tables: the median of each figure over the seeds, with its range."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf, isfinite, isnan
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.report.timeline_summary import FORESIGHT
from pulsar_rebalancer.lab.requested_runs import Made, grouped, median
from pulsar_rebalancer.lab.simulation.metrics.figures import known
from pulsar_rebalancer.lab.simulation.metrics.operations import Operation

#: Heading, figure, and whether the column shows the range over the seeds.
COLUMNS = (
    ("balanced", "rounds_to_balance", False),
    ("rounds", "operations", False),
    ("bundles", "bundles_moved", True),
    ("churn", "churn_ratio", False),
    ("spread", "lasting_spread", True),
    ("gap", "residual_gap", False),
    ("false/d", "false_unloads_a_day", False),
    ("overload", "overload_minutes", False),
    ("clients", "client_cost", False),
    ("returns", "returns", False),
    ("useless", "useless_moves", False),
    ("error", "prediction_error", False),
)
LEGEND = (
    "Medians over the seeds, lowest–highest in brackets. balanced: rounds until the cluster "
    "stays balanced; rounds, bundles: "
    "number with moves, number moved; churn: traffic moved ÷ the least traffic that reaches "
    "the same spread; spread: of usage at "
    "the end, in points, without noise; gap: spread above the lowest that whole bundles can "
    "reach; false/d: unloads a day while "
    "load was even; overload: brokers × minutes above 85 %; clients: topics × seconds without "
    "a broker; "
    f"{FORESIGHT}. parity: decides like "
    "Pulsar's class, fixed: with its known defects repaired. LRUW, LLTMR: "
    "LeastResourceUsageWithWeight and LeastLongTermMessageRate. "
    "--json has all figures."
)

TOO_LARGE = (
    "{}: its largest bundle has {} times a broker's fair share; no move can balance that, "
    "only a split (splitting.enabled)."
)


def by_scenario(made: Sequence[Made]) -> Iterator[console.Sheet | str]:
    """One table per scenario with one line per strategy; below it, a bundle that is too large and
    the backlog that limits caused.
    """
    groups = grouped(made)
    for scenario in dict.fromkeys(scenario for scenario, _ in groups):
        rows = [
            [label, *cells(group)] for (name, label), group in groups.items() if name == scenario
        ]
        columns: list[tuple[str, console.Side]] = [
            ("strategy", "left"),
            *((heading, "right") for heading, _, _ in COLUMNS),
        ]
        yield console.Sheet(columns, rows, title=scenario)
        largest = median(
            [one.figures["largest_bundle"] for one in made if one.scenario == scenario]
        )
        if largest > 1:
            yield TOO_LARGE.format(scenario, shown(largest))
        if any(one.limited for one in made if one.scenario == scenario):
            waiting = {
                label: median([one.backlog for one in group])
                for (name, label), group in groups.items()
                if name == scenario
            }
            unread = "; ".join(f"{label} {shown(count)}" for label, count in waiting.items())
            yield f"Dispatch is limited; unread messages at the end: {unread}"


def cells(group: Sequence[Made]) -> list[str]:
    """The cells of a line: medians of a group of seeds."""
    return [_cell([one.figures[name] for one in group], ranged) for _, name, ranged in COLUMNS]


def as_json(made: Sequence[Made]) -> dict[str, Any]:
    """All figures of all runs as one JSON object."""
    return {
        "runs": [
            {
                "scenario": one.scenario,
                "strategy": one.label,
                "seed": one.request.seed,
                "figures": known(one.figures),
                "never": sorted(name for name, value in one.figures.items() if value == inf),
                "backlog_messages": one.backlog,
                **(
                    {"operations": [each.known() for each in one.operations]}
                    if one.operations
                    else {}
                ),
            }
            for one in made
        ]
    }


def shown(value: float) -> str:
    """A figure with three significant digits."""
    if isnan(value):
        return "–"
    if not isfinite(value):
        return "never"
    return (
        f"{value:,.0f}"
        if abs(value) >= 100 or value == int(value)
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def _cell(values: Sequence[float], ranged: bool) -> str:
    known = [value for value in values if not isnan(value)]
    middle = shown(median(values))
    low, high = (shown(min(known)), shown(max(known))) if known else ("", "")
    return middle if low == high or not ranged else f"{middle} ({low}–{high})"


#: Heading and figure.
_FIGURES = (
    ("rounds", "rounds"),
    ("drained", "evacuated"),
    ("moved", "moved"),
    ("MiB/s", "moved_mib"),
    ("highest", "highest"),
    ("before", "before"),
)
OPERATIONS_LEGEND = (
    "Drains and rolls, medians over the seeds. state: that of most seeds; rounds: until the broker "
    "is drained or the roll has ended; drained: bundles that left draining brokers, which the "
    "table above does not count; moved, MiB/s: all bundles that commands moved meanwhile, and "
    "their traffic; highest: highest usage of a broker meanwhile, in percent, without noise; "
    "before: the same in the round before."
)


def operations(made: Sequence[Made]) -> Iterator[console.Sheet | str]:
    """One table per scenario that drains or rolls, and the legend below the last one."""
    groups, found = grouped(made), False
    for scenario in dict.fromkeys(scenario for scenario, _ in groups):
        rows = [
            [label, *_cells(same)]
            for (name, label), group in groups.items()
            if name == scenario
            for same in zip(*(one.operations for one in group), strict=False)
        ]
        if rows:
            found = True
            columns: list[tuple[str, console.Side]] = [
                ("strategy", "left"),
                ("what", "left"),
                ("state", "left"),
                *((heading, "right") for heading, _ in _FIGURES),
            ]
            yield console.Sheet(columns, rows, title=f"{scenario}: drains and rolls")
    if found:
        yield OPERATIONS_LEGEND


def _cells(same: Sequence[Operation]) -> list[str]:
    """The cells of one drain or roll in several seeds."""
    ((state, count),) = Counter(one.state for one in same).most_common(1)
    figures = (median([getattr(one, name) for one in same]) for _, name in _FIGURES)
    seeds = "" if count == len(same) == 1 else f" ({count} of {len(same)})"
    return [same[0].what, f"{state}{seeds}", *map(shown, figures)]

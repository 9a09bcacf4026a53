"""The drains and rolls of simulated runs as a table: medians over the seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.simulate.groups import grouped, median
from pulsar_rebalancer.lab.simulate.runs import Made
from pulsar_rebalancer.lab.simulation.metrics.operations import Operation
from pulsar_rebalancer.lab.tables.simulate.tables import shown

#: Heading and figure.
_FIGURES = (
    ("rounds", "rounds"),
    ("drained", "evacuated"),
    ("moved", "moved"),
    ("MiB/s", "moved_mib"),
    ("highest", "highest"),
    ("before", "before"),
)
LEGEND = (
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
        yield LEGEND


def _cells(same: Sequence[Operation]) -> list[str]:
    """The cells of one drain or roll in several seeds."""
    ((state, count),) = Counter(one.state for one in same).most_common(1)
    figures = (median([getattr(one, name) for one in same]) for _, name in _FIGURES)
    seeds = "" if count == len(same) == 1 else f" ({count} of {len(same)})"
    return [same[0].what, f"{state}{seeds}", *map(shown, figures)]
